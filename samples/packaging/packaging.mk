# Defines the targets install, uninstall and deb; the Makefile includes this file.

LIBDIR = $(PREFIX)/lib
BIN = $(DESTDIR)$(PREFIX)/bin
LIB = $(DESTDIR)$(LIBDIR)
INCLUDE = $(DESTDIR)$(PREFIX)/include
MAN = $(DESTDIR)$(PREFIX)/share/man/man1
COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
installed = BUILD=$(BUILD) VERSION=$(VERSION) PREFIX=$(PREFIX) BIN=$(BIN) LIB=$(LIB) \
    LIBDIR=$(LIBDIR) INCLUDE=$(INCLUDE) MAN=$(MAN) COMPLETIONS=$(COMPLETIONS) \
    tests/tools/install.sh

.PHONY: install uninstall deb
install: all
	@$(installed) install

uninstall:
	@$(installed) uninstall

deb:
	@BUILD=$(BUILD) VERSION=$(VERSION) samples/packaging/deb.sh
