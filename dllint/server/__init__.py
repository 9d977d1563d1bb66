"""The language server: dllint in an editor. It needs the extra ``lsp``; nothing else of dllint imports pygls."""
