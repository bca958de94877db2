"""Finds the Java classes that a file names, by its `plugin.path` and --jars. Called by `config.flow.flows` and
`cli.file`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.keys import table as keys
from sparkmirror.config.precedence import cluster_properties
from sparkmirror.config.reading import Problems, Reader
from sparkmirror.config.types import split_list
from sparkmirror.plugins import ClassPath, class_path


def find_plugins(properties: Properties, target: str, problems: Problems) -> ClassPath:
    """The places of the classes of flows into `target`; of all flows, where it is "". Both levels of the file count."""
    layers = (properties.entries, cluster_properties(properties, target) if target else {})
    places = [place for layer in layers for place in Reader(layer, problems).read(keys.PLUGIN_PATH)]
    return class_path(tuple(dict.fromkeys(places)), os.environ)


def with_jars(properties: Properties, jars: Sequence[str]) -> Properties:
    """The file with the jars of a command line before its own `plugin.path`, so that Spark's workers know them too."""
    if not jars:
        return properties
    name = keys.PLUGIN_PATH.name
    entry = properties.get(name) or Entry(name, "", 0)
    given = [str(Path(jar).absolute()) for one in jars for jar in split_list(one)]
    value = ",".join(dict.fromkeys([*given, *split_list(entry.value)]))
    return replace(properties, entries={**properties.entries, name: replace(entry, value=value)})
