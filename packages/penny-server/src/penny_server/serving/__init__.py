"""Starting an SGLang server as a child process, watching it, and ending it with nothing left running."""
