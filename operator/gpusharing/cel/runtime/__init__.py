"""What generated code calls: operators and functions on values, with cel-go's behaviour and its oddities."""
