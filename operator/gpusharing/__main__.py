from gpusharing.cli.main import main

if __name__ == "__main__":
    main()
