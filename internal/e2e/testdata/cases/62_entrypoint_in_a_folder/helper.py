raise ImportError("the helper beside the entrypoint comes first")
