"""ELMo for other libraries; each is imported only on use."""
