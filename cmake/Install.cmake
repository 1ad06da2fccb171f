# Installation; see test/package for what is checked of it.
