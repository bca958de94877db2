"""The part of the table of keys (`config/keys/table.py`) on what a running mirror shows and says."""

from typing import Any

from sparkmirror.config import types
from sparkmirror.config.keys.key import Key, Scope

_NO_KEY = "no such key"

STATUS_LISTEN = Key(
    "status.listen",
    Scope.FILE,
    types.ADDRESS,
    types.NOWHERE,
    "Where a running mirror serves its status page, `/metrics` and `/healthz`, as in `localhost:8080`; nothing listens "
    "when not set. Any other address than loopback takes a `status.token`; see docs/web.md.",
    _NO_KEY,
)
STATUS_TOKEN = Key(
    "status.token",
    Scope.FILE,
    types.TOKEN,
    "",
    "What the status page asks for before it pauses or resumes anything, and before it shows anything to another "
    "machine. Without one the page only shows. At least 16 characters that cannot be guessed; `openssl rand -hex 24` "
    "makes a good one.",
    _NO_KEY,
)
READ_ONLY_TOKEN = Key(
    "status.read.only.token",
    Scope.FILE,
    types.TOKEN,
    "",
    "Shows another machine what `status.token` shows it, and gives no orders: for Prometheus and for dashboards.",
    _NO_KEY,
)
PROBES_LISTEN = Key(
    "status.probes.listen",
    Scope.FILE,
    types.ADDRESS,
    types.NOWHERE,
    "Where `/healthz` and `/readyz` are answered as well, in plain HTTP, and nothing else is: for a port that the "
    "network lets only the supervisor reach. It may be set without `status.listen`.",
    _NO_KEY,
)
MAX_CONNECTIONS = Key(
    "status.max.connections",
    Scope.FILE,
    types.whole(1, 4096),
    128,
    "How many requests the page answers at once; an open page is one. Probes are not counted.",
    _NO_KEY,
)
MAX_CONNECTIONS_PER_IP = Key(
    "status.max.connections.per.ip",
    Scope.FILE,
    types.whole(16, 4096),
    32,
    "How many of them may be of one address (of IPv6: of one network of 64 bits). Behind a proxy everybody has the "
    "proxy's address: set it as high as `status.max.connections` there.",
    _NO_KEY,
)
_SSL_KEYS = {
    "keystore.type": (types.choice("JKS", "PKCS12", "PEM"), "JKS", "As Kafka's `ssl.keystore.type`."),
    "keystore.location": (types.STRING, "", "The page's own key and certificate: with one it speaks TLS only."),
    "keystore.password": (types.STRING, "", "As Kafka's `ssl.keystore.password`."),
    "key.password": (types.STRING, "", "As Kafka's `ssl.key.password`."),
    "keystore.key": (types.STRING, "", "The page's own key as PEM text, in place of `status.ssl.keystore.location`."),
    "keystore.certificate.chain": (types.STRING, "", "Its certificates as PEM text."),
    "enabled.protocols": (types.STRING, "TLSv1.2,TLSv1.3", "As Kafka's `ssl.enabled.protocols`."),
    "cipher.suites": (types.STRING, "", "As Kafka's `ssl.cipher.suites`."),
}
SSL_PREFIX = "status."
STATUS_SSL: tuple[Key[str], ...] = tuple(
    Key(f"{SSL_PREFIX}ssl.{name}", Scope.FILE, kind, default, doc, _NO_KEY)
    for name, (kind, default, doc) in _SSL_KEYS.items()
)
LOG_FORMAT = Key(
    "log.format",
    Scope.FILE,
    types.choice("text", "json"),
    "text",
    "How a running mirror writes what happens to its error output: sentences, or a JSON object a line with `time`, "
    "`level`, `flow`, `topic`, `partition`, `event` and `message`. `--log-format` counts more; see docs/logs.md.",
    "log4j",
)
METRIC_NAMES = Key(
    "metric.names.formats",
    Scope.FLOW,
    types.choices("legacy", "new"),
    ("legacy",),
    "Which names MirrorMaker's MBeans have: `legacy` is `kafka.connect.mirror:type=MirrorSourceConnector`, "
    "`new` is `kafka.connect:type=plugins` with connector and task (docs/jmx.md). `/metrics` keeps its names.",
)

STATUS_KEYS: tuple[Key[Any], ...] = (
    STATUS_LISTEN,
    STATUS_TOKEN,
    READ_ONLY_TOKEN,
    PROBES_LISTEN,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    *STATUS_SSL,
    LOG_FORMAT,
    METRIC_NAMES,
)
