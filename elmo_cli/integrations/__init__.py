"""ELMo in other libraries; each is imported only when it is asked for."""
