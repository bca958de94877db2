"""Wiring: from a configuration to running queries, and back to a clean stop. Called by `cli.run`."""

import logging
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sparkmirror.config.flows import FlowConfig, MirrorConfig
from sparkmirror.config.options import RunOptions
from sparkmirror.engine.jobs import TopicJobs, topic_rules
from sparkmirror.engine.progress import show_progress
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.source.commands import Stop, encode_command
from sparkmirror.sync.topic_job import TopicSync
from sparkmirror.sync.topics import render_plan

log = logging.getLogger(__name__)
STOP_SECONDS_MAX = 8.0


def run_mirror(config: MirrorConfig, options: RunOptions) -> int:
    raise SystemExit
