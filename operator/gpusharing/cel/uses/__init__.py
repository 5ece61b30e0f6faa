"""What does an expression use of a device, and what did its author mean to use?"""
