"""`python -m optik`, the same as `optik`."""

from optik.cli import main

if __name__ == "__main__":
    main()
