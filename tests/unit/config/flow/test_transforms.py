"""What a flow does to its records, as a file says it: our own keys, Connect's transformations, and what is refused."""

import re

import pytest
from tests.flows import SMALLEST

from sparkmirror.config.flow.connect_transforms import literal
from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.flow.lookup_tables import LookupTable
from sparkmirror.config.flow.transforms import CallFunction, DeadLetter, Explode, Keep, SetColumns, Step
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import ConfigError

CONNECT = "org.apache.kafka.connect.transforms"
DATED = f"transforms = t\ntransforms.t.type = {CONNECT}.TimestampRouter\ntransforms.t.timestamp.format = "


def steps(text: str) -> tuple[Step, ...]:
    config = parse_config(parse_properties((SMALLEST + text).encode(), "mm2"))
    assert not config.warnings
    return config.flows[0].transforms.steps


def settings(text: str) -> dict[str, str]:
    """What is set, by column, over all steps."""
    return {one.column: one.expression for step in steps(text) if isinstance(step, SetColumns) for one in step.columns}


def test_a_file_without_transforms_has_no_steps() -> None:
    assert steps("") == ()


def test_steps_come_in_a_fixed_order_and_know_their_lines() -> None:
    found = steps(
        "A->B.transforms.function = shop.orders:clean\n"
        "A->B.transforms.set.topic = 'x'\n"
        "transforms.set.value = upper(value)\n"
        "transforms.deadletter.topic = dead\n"
        "transforms.deadletter.when = value IS NULL\n"
        "transforms.where = offset > 5\n"
        "transforms.explode = split(value, ',')\n"
        f"transforms = f\ntransforms.f.type = {CONNECT}.Filter\n"
    )
    assert [type(step) for step in found] == [Keep, DeadLetter, Keep, Explode, SetColumns, CallFunction]
    keep, dead, _, explode, setting, call = found
    assert isinstance(keep, Keep) and (keep.condition, keep.source.line) == ("offset > 5", 10)
    assert isinstance(dead, DeadLetter) and (dead.condition, dead.topic) == ("value IS NULL", "dead")
    assert isinstance(explode, Explode) and (explode.expression, explode.source.line) == ("split(value, ',')", 11)
    assert isinstance(setting, SetColumns)
    assert {one.column: one.source.line for one in setting.columns} == {"target_topic": 6, "value": 7}
    assert isinstance(call, CallFunction) and call.name == "shop.orders:clean"


def tables(text: str) -> tuple[LookupTable, ...]:
    return parse_config(parse_properties((SMALLEST + text).encode(), "mm2")).flows[0].transforms.tables


def test_tables_are_files_or_functions_with_a_key() -> None:
    found = tables(
        "transforms.table.regions.path = s3://shop/regions.CSV\n"
        "transforms.table.regions.key = shop, id\n"
        "A->B.transforms.table.names.function = shop.tables:names\n"
        "A->B.transforms.table.names.key = id\n"
        "A->B.transforms.table.names.reload.interval.ms = 500\n"
        "transforms.table.lake.path = /lake/customers\n"
        "transforms.table.lake.key = id\n"
    )
    by_name = {one.name: one for one in found}
    regions, names, lake = (by_name[name] for name in ("regions", "names", "lake"))
    assert (regions.path, regions.format, regions.keys, regions.reload_seconds) == (
        "s3://shop/regions.CSV", "csv", ("shop", "id"), 60.0,
    )  # fmt: skip
    assert (names.path, names.function, names.reload_seconds, names.source.line) == (
        "", "shop.tables:names", 0.5, 8,
    )  # fmt: skip
    assert lake.format == "parquet"


JDBC, KEY = "transforms.table.t.jdbc.", "transforms.table.t.key = id\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("transforms.table.t.key = id\n", "the table `t` has none of a path, a function, a database"),
        (
            "transforms.table.t.path = x\ntransforms.table.t.function = m:f\ntransforms.table.t.key = id\n",
            "the table `t` has a path and a function",
        ),
        ("transforms.table.t.path = x\n", "the table `t` has no key"),
        ("transforms.table.t.path = x\ntransforms.table.t.keys = id\n", "`transforms.table.t.keys` is no setting of"),
        ("transforms.table.a-b.path = x\n", "`transforms.table.a-b.path` is no setting of a table"),
        ("transforms.table.t.function = f\ntransforms.table.t.key = id\n", "must be written `module:function`"),
        (
            "transforms.table.t.path = x\ntransforms.table.t.key = id\ntransforms.table.t.reload.interval.ms = 1\n",
            "reload.interval.ms = 1` must be",
        ),
        (
            "transforms.table.t.path = x\ntransforms.table.t.key = id\ntransforms.table.t.format = orc\n",
            "format = orc` must be `parquet` or",
        ),
        ("transforms.table.t.jdbc.url = jdbc:x\ntransforms.table.t.path = x\n", "`t` has a path and a database"),
        (f"{JDBC}table = t\n{JDBC}user = u\n{KEY}", "`t` has no address of a database"),
        (f"{JDBC}url = postgresql://h/d\n{JDBC}table = t\n{KEY}", "`t` has no address of a database"),
        (f"{JDBC}url = jdbc:x\n{KEY}", "mm2:5: .*`t` has neither a table nor a query of it"),
        (f"{JDBC}url = jdbc:x\n{JDBC}table = t\n{JDBC}query = SELECT 1\n{KEY}", "has both a table and a query"),
        (
            f"{JDBC}url = jdbc:x\n{JDBC}table = t\n{JDBC}option.dbTable = t\n{KEY}",
            "write `transforms.table.t.jdbc.table`",
        ),
        (f"{JDBC}url = jdbc:x\n{JDBC}table = t\n{JDBC}option. = t\n{KEY}", "no setting of a table"),
    ],
)
def test_a_table_that_cannot_be_is_a_problem_of_its_line(lines: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tables(lines)


def test_a_table_of_a_database_is_read_by_spark_s_options() -> None:
    (table,) = tables(
        f"{JDBC}url = jdbc:postgresql://db/shop\n{JDBC}table = rates\n{JDBC}user = u\n{JDBC}password = s3cret\n"
        f"{JDBC}driver = org.x.Driver\n{JDBC}option.fetchSize = 7\n{JDBC}option.trustStorePassword = open sesame\n{KEY}"
    )
    assert table.jdbc is not None and (table.path, table.function) == ("", "")
    assert table.jdbc.source.line == 5
    assert dict(table.jdbc.options) == {
        "url": "jdbc:postgresql://db/shop", "dbtable": "rates", "user": "u", "password": "s3cret",
        "driver": "org.x.Driver", "fetchsize": "7", "trustStorePassword": "open sesame",
    }  # fmt: skip
    assert set(table.jdbc.secrets) == {"s3cret", "open sesame"}
    assert "s3cret" not in repr(table) and "sesame" not in repr(table)
    (table,) = tables(f"{JDBC}url = jdbc:mysql://db/shop\n{JDBC}table = rates\n{KEY}")
    assert table.jdbc is not None and dict(table.jdbc.options)["driver"] == "com.mysql.cj.jdbc.Driver"
    (table,) = tables(f"{JDBC}url = jdbc:x\n{JDBC}query = SELECT 1\n{KEY}")
    assert table.jdbc is not None
    assert dict(table.jdbc.options) == {"fetchsize": "1000", "url": "jdbc:x", "query": "SELECT 1"}


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://db/shop?user=u&password=s3cret",
        "jdbc:mysql://u:s3cret@db/shop",
        "jdbc:sqlserver://db;user=u;Password=s3cret",
        "jdbc:oracle:thin:u/s3cret@db:1521:x",
        "jdbc:db2://db/shop:user=u;password=s3cret;",
        "jdbc:mysql://address=(host=db)(user=u)(password=s3cret)/shop",
    ],
)
def test_a_password_in_the_address_of_a_database_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match=r"mm2:5: `transforms\.table\.t\.jdbc\.url` holds a password") as refused:
        tables(f"{JDBC}url = {url}\n{JDBC}table = t\n{KEY}")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://db:5432/shop?sslmode=verify-full",
        "jdbc:oracle:thin:@//db:1521/x",
        "jdbc:h2:tcp://h/mem:x;A=1",
    ],
)
def test_an_address_without_a_password_is_taken(url: str) -> None:
    assert len(tables(f"{JDBC}url = {url}\n{JDBC}table = t\n{KEY}")) == 1


def warnings(text: str) -> list[str]:
    return [str(one) for one in parse_config(parse_properties((SMALLEST + text).encode(), "mm2")).warnings]


def test_a_table_without_a_step_that_could_look_it_up_is_warned_of_by_its_line() -> None:
    table = "transforms.table.names.path = /names.csv\ntransforms.table.names.key = id\n"
    (warning,) = warnings(table)
    assert "mm2:6" in warning and "the table `names` is not used" in warning
    assert "lookup_names(key)" in warning
    back = "B->A.enabled = true\n"
    assert len(warnings(back + table)) == 1, "once, though two flows have it"
    assert not warnings(table + "transforms.where = true\n")
    assert not warnings(back + table + "A->B.transforms.where = true\n"), "one of the flows can use it"


def test_registries_of_both_sides_hide_their_passwords() -> None:
    lines = "transforms.schemas.source.url = http://a:8081/\ntransforms.schemas.target.url = https://b\n"
    lines += "transforms.schemas.target.user.info = mirror:s3cret\n"
    found = parse_config(parse_properties((SMALLEST + lines).encode(), "mm2")).flows[0].transforms.schemas
    assert found is not None and "s3cret" not in repr(found)
    assert (found.source.url, found.target.url, found.target.user_info) == (
        "http://a:8081",
        "https://b",
        "mirror:s3cret",
    )


def test_one_registry_is_that_of_both_sides_and_has_schemas_for_avro() -> None:
    lines = "transforms.schemas.source.url = http://a:8081\ntransforms.schemas.source.user.info = u:p\n"
    lines += "transforms.avro.order.subject = orders-value\ntransforms.avro.old.subject = o\n"
    lines += "transforms.avro.old.version = 3\n"
    found = parse_config(parse_properties((SMALLEST + lines).encode(), "mm2")).flows[0].transforms.schemas
    assert found is not None and found.target == found.source and found.target.user_info == "u:p"
    assert [(one.name, one.subject, one.version) for one in found.avro] == [
        ("order", "orders-value", "latest"), ("old", "o", "3"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("transforms.schemas.target.url = http://a\n", "`transforms.schemas.source.url` must be an http"),
        ("transforms.avro.order.subject = o\n", "`transforms.avro.order.subject` names a subject, and no registry"),
        ("transforms.avro.order.version = 3\n", "the schema `order` has no subject"),
        ("transforms.avro.order.schema = 3\n", "`transforms.avro.order.schema` is no setting of a schema"),
        (
            "transforms.schemas.source.url = http://a\ntransforms.avro.order.subject = o\n"
            "transforms.avro.order.version = 0\n",
            "`transforms.avro.order.version = 0` must be `latest` or the number of a version",
        ),
        (
            "transforms.schemas.source.url = a:8081\ntransforms.schemas.target.url = http://b\n",
            "`transforms.schemas.source.url` must be an http",
        ),
        ("transforms.schemas.url = http://a\n", "`transforms.schemas.url` is no setting of a schema registry"),
    ],
)
def test_registries_that_cannot_be_are_a_problem_of_their_line(lines: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(parse_properties((SMALLEST + lines).encode(), "mm2"))


def test_a_flow_s_own_line_wins_over_the_top_level() -> None:
    assert settings("transforms.set.key = 'a'\nA->B.transforms.set.key = 'b'\n") == {"key": "'b'"}


@pytest.mark.parametrize(
    ("lines", "column", "expression"),
    [
        (
            "type = {c}.RegexRouter|regex = A\\\\.(.*)|replacement = eu-$1",
            "target_topic",
            r"regexp_replace(target_topic, '^(?:A\\.(.*))$', 'eu-$1')",
        ),
        (
            "type = {c}.InsertHeader|header = it's|value.literal = 1",
            "headers",
            r"concat(coalesce(headers, array()), array(struct('it\'s' AS key, cast('1' AS binary) AS value)))",
        ),
        (
            "type = {c}.DropHeaders|headers = a, b",
            "headers",
            "filter(headers, header -> header.key NOT IN ('a', 'b'))",
        ),
        (
            "type = {c}.TimestampRouter|timestamp.format = yyyy-MM",
            "target_topic",
            r"replace(replace('\u0024{topic}-\u0024{timestamp}', '\u0024{topic}', target_topic), '\u0024{timestamp}', "
            "date_format(timestamp, 'yyyy-MM'))",
        ),
    ],
)
def test_connect_s_transformations_become_expressions(lines: str, column: str, expression: str) -> None:
    text = "A->B.transforms = t\n" + "".join(
        f"A->B.transforms.t.{line}\n" for line in lines.format(c=CONNECT).split("|")
    )
    assert settings(text) == {column: expression}


@pytest.mark.parametrize(
    "pattern",
    [
        "yyyyMMdd",
        "yy-M-d",
        "dd/MMM/yyyy",
        "HHmmssSSS",
        "H:m:s.SSS",
        "MMMM yyyy",
        "'at' HH 'o''clock'",
        "yyyy-MM-dd'T'HH",
    ],
)
def test_dates_that_java_and_spark_write_alike_are_translated(pattern: str) -> None:
    assert f"date_format(timestamp, {literal(pattern)})" in settings(f"{DATED}{pattern}\n")["target_topic"]


@pytest.mark.parametrize(
    ("predicate", "negate", "condition"),
    [
        ("RecordIsTombstone", "", "NOT ((value IS NULL))"),
        ("RecordIsTombstone", "true", "NOT (NOT ((value IS NULL)))"),
        ("HasHeaderKey|name = x", "false", "NOT (coalesce(exists(headers, header -> header.key = 'x'), false))"),
        ("TopicNameMatches|pattern = A.*", "", "NOT (coalesce(target_topic RLIKE '^(?:A.*)$', false))"),
    ],
)
def test_a_filter_drops_what_its_predicate_says(predicate: str, negate: str, condition: str) -> None:
    kind, *others = predicate.split("|")
    text = f"transforms = f\ntransforms.f.type = {CONNECT}.Filter\ntransforms.f.predicate = p\npredicates = p\n"
    text += f"predicates.p.type = {CONNECT}.predicates.{kind}\n"
    text += "".join(f"predicates.p.{other}\n" for other in others)
    text += f"transforms.f.negate = {negate}\n" if negate else ""
    (keep,) = steps(text)
    assert isinstance(keep, Keep) and keep.condition == condition


def test_a_predicate_limits_any_transformation() -> None:
    text = f"transforms = t\ntransforms.t.type = {CONNECT}.DropHeaders\ntransforms.t.headers = a\n"
    text += f"transforms.t.predicate = p\npredicates = p\npredicates.p.type = {CONNECT}.predicates.RecordIsTombstone\n"
    expression = settings(text)["headers"]
    assert expression.startswith("CASE WHEN (value IS NULL) THEN filter(headers") and "ELSE headers END" in expression


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("transforms.where =\n", "mm2:5: `transforms.where` is empty"),
        ("transforms.set.offset = 1\n", "mm2:5: `transforms.set.offset` cannot be set: the target numbers its records"),
        ("transforms.set.vlaue = 1\n", "there is no such column"),
        ("transforms.deadletter.when = true\n", "`transforms.deadletter.when` needs `transforms.deadletter.topic`"),
        ("transforms.deadletter.topic = d\n", "`transforms.deadletter.topic` needs `transforms.deadletter.when`"),
        *(
            (
                f"transforms.deadletter.when = true\ntransforms.deadletter.topic ={topic}\n",
                f"mm2:6: `transforms.deadletter.topic` names `{topic.strip()}`, which cannot be a topic for data",
            )
            for topic in ("", " __dead", " a b", " mm2-dead", " ..", " " + "d" * 250)
        ),
        ("transforms.function = shop\n", "must be written `module:function`"),
        ("transforms = t\n", "`transforms` lists `t`, which has no `transforms.t.type`"),
        ("transforms = set\n", "`transforms` lists `set`, which means something else here"),
        ("transforms.t.type = x\n", "`transforms.t.type` belongs to nothing that `transforms` lists"),
        ("transforms = t\ntransforms.t.type = com.x.Mine\n", "Java classes do not run in SparkMirror"),
        (f"transforms = t\ntransforms.t.type = {CONNECT}.ValueToKey\n", "mirrored ones are bytes"),
        (f"transforms = t\ntransforms.t.type = {CONNECT}.MaskField$Value\n", "mirrored ones are bytes"),
        (f"transforms = t\ntransforms.t.type = {CONNECT}.RegexRouter\n", "needs `regex`"),
        (f"transforms = t\ntransforms.t.type = {CONNECT}.Filter\ntransforms.t.predicate = p\n", "the predicate `p`"),
        (f"transforms = t\ntransforms.t.type = {CONNECT}.Filter\ntransforms.t.regex = p\n", "has no setting `regex`"),
        (
            f"transforms = t\ntransforms.t.type = {CONNECT}.RegexRouter\ntransforms.t.regex = (\n"
            "transforms.t.replacement = x\n",
            "has the expression `\\(`, which is not a regular expression",
        ),
        *(
            (f"{DATED}{pattern}\n", rf"has the timestamp.format `{re.escape(pattern)}`, which is not translated")
            for pattern in (
                "S",
                "SSSS",
                "yyy",
                "yyyyy",
                "ddd",
                "MMMMM",
                "[yyyy]",
                "yyyy#",
                "{yyyy}",
                "yyyy'",
                "DDD",
                "u",
            )
        ),
        ("predicates = p\npredicates.p.type = com.x.Mine\n", "names a predicate that cannot be loaded here"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        steps(text)
