"""What are the types of an expression's parts, and what does Kubernetes refuse for them?"""
