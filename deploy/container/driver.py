"""/opt/sparkmirror/driver.py of the image: the main program of a driver's pod that Spark's cluster mode made."""

from sparkmirror.cli.driver import main

raise SystemExit(main())
