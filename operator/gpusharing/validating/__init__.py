"""What the API server, NVIDIA's decoder and our guards would say of manifests, without any of them."""
