from building.properties import load_profile

load_profile()
