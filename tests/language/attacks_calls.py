"""Attacks by what they call, read and run: functions, paths, whole statements."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import LanguageError, MalformedSQL, UnknownFunction, UnknownStream, Unsupported
from penstock.language.grammar.literals import word_set
from tests.language.attack import NOT_PARSED, Attack, W, harmless, largest, refused, where

REACHING_OUT = sorted(
    word_set(
        """reflect java_method try_reflect input_file_name input_file_block_start input_file_block_length
    current_user session_user user current_database current_schema current_catalog version spark_partition_id
    monotonically_increasing_id rand randn random randstr uniform uuid shuffle now current_timestamp
    current_date current_time curdate localtimestamp current_timezone unix_timestamp assert_true raise_error
    http_request read_files"""
    )
)
MANY_ROWS = sorted(
    word_set(
        """explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
    row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value"""
    )
)
UNHEARD_OF = sorted(
    word_set(
        """exec xp_cmdshell system shell load_file pg_read_file pg_sleep sleep benchmark dblink getenv env secret
    ai_query from_csv_file read_csv read_parquet read_text copy eval pickle python udf count_min
    load_extension"""
    )
)


def forbidden_functions() -> Iterator[Attack]:
    spellings = ("{}()", "{}(symbol)", "upper({}(symbol, 'x'))")
    for name in REACHING_OUT:
        yield from refused(
            "a function that reaches outside the row", Unsupported, (where(s.format(name)) for s in spellings)
        )
    yield from refused("a function of many rows", Unsupported, (largest(f"{name}(tags)") for name in MANY_ROWS))
    yield from refused("a function nobody knows", UnknownFunction, (largest(f"{name}(symbol)") for name in UNHEARD_OF))
    disguised = (
        "`reflect`('java.lang.System', 'exit')", "ReFlEcT('java.lang.Runtime', 'getRuntime')",
        "reflect /* */ ('a', 'b')", "reflect\n(\n'a','b')", "REFLECT('a' 'b', 'c')", "`Java_Method`('a', 'b')",
        "reflect(reflect('a', 'b'), 'c')", "coalesce(reflect('java.lang.System', 'getenv', 'HOME'), symbol)",
        "CASE WHEN true THEN uuid() END", "cast(current_user() AS string)", "if(rand() > 1, 1, 2)", "current_user",
        "session_user", "user", "current_timestamp", "current_date", "CURRENT_USER", "tags[cast(rand() * 3 AS int)]",
        "named_struct('a', uuid())", "-rand()", "NOT current_user() = 'x'", "symbol IN (current_user(), uuid())",
        "symbol BETWEEN uuid() AND uuid()", "symbol LIKE uuid()", "extract(year FROM now())", "map(uuid(), 1)",
        "now() - INTERVAL 5 MINUTES", "uuid()::binary",
    )  # fmt: skip
    yield from refused("a forbidden function in disguise", Unsupported, (where(f"({f}) IS NULL") for f in disguised))
    elsewhere = (
        "SELECT uuid(), count(*) AS n FROM trades {}", "SELECT count(*) AS n FROM trades {} GROUP BY uuid()",
        "SELECT count(*) AS n FROM trades {} HAVING max(rand()) > 0",
        "SELECT count(*) AS n FROM trades {} HAVING rand() > 0",
        "SELECT count(*) AS n FROM trades {} JOIN listing ON upper(uuid()) = listing.symbol",
        "SELECT count(uuid()) AS n FROM trades {}", "SELECT count(*) + reflect('a', 'b') AS n FROM trades {}",
    )  # fmt: skip
    yield from refused("a forbidden function in any clause", Unsupported, (text.format(W) for text in elsewhere))
    named = ("spark_catalog.default.upper(symbol)", "system.builtin.reflect('a', 'b')", "a.b(symbol)", "`a.b`(symbol)",
             "builtin.upper(symbol)", "session.f(symbol)", "`upper(`(symbol)", "`upper) --`(symbol)", "``(symbol)",
             "`u``p`(symbol)", "'upper'(symbol)", "(upper)(symbol)", "upper(symbol)(symbol)", "1(symbol)")  # fmt: skip
    yield from refused("a function under another kind of name", LanguageError, (largest(n) for n in named))
    shaped = (
        "transform(tags, x -> x)", "transform(tags, (x, i) -> x || i)", "filter(tags, x -> reflect('a', x))",
        "aggregate(tags, 0, (a, x) -> a + 1)", "array_sort(tags, (a, b) -> 0)", "exists(tags, x -> true)",
        "zip_with(tags, tags, (a, b) -> a)", "map_filter(m, (k, v) -> true)", "upper(s => symbol)",
        "upper(symbol => 'x')", "struct(symbol AS x)", "count(DISTINCT symbol, price)", "sum(DISTINCT price)",
        "upper(*)", "upper(trades.*)", "upper(DISTINCT symbol)", "max(price) OVER ()", "lag(price) OVER w",
        "max(price) FILTER (WHERE true)", "first(price) IGNORE NULLS",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY price)", "upper(symbol ORDER BY symbol)", "upper(SELECT 1)",
        "upper((SELECT symbol FROM trades))", "upper(TABLE trades)", "upper(symbol) WITHIN GROUP (x)",
    )  # fmt: skip
    yield from refused("more than values in a call", LanguageError, (largest(s) for s in shaped))
    growing = ("repeat('x', 2000000000)", "repeat(repeat(repeat('x', 9999), 9999), 9999)", "space(2147483647)",
               "repeat(symbol, volume)", "repeat('x', 1000 * 1000 * 1000)", "lpad(symbol, 2147483647, 'x')",
               "rpad('', 999999999)", "size(array_repeat(symbol, 1000000000))", "size(sequence(1, 1000000000000))",
               "size(sequence(0, volume))", "size(sequence(DATE '0001-01-01', DATE '9999-12-31'))",
               "size(array_insert(tags, 2000000000, 'x'))", "format_string('%2000000000d', volume)",
               "format_string(symbol, volume)", "printf('%099999d', 1)", "space(cast(2147483647 AS int))",
               "repeat('x', -(-2000000000))", "repeat('x', 2000000000L)", "repeat('x', length(symbol))",
               "hex(" * 30 + "symbol" + ")" * 30, "to_json(struct(" * 12 + "symbol" + "))" * 12,
               "replace(" * 12 + "symbol" + ", 'x', 'xxxxxxxxx')" * 12, "url_encode(" * 20 + "symbol" + ")" * 20,
               "base64(encode(hex(" * 8 + "symbol" + "), 'utf-16'))" * 8)  # fmt: skip
    yield from refused("a value that would not fit in memory", LanguageError, (largest(g) for g in growing))
    maps = (
        "map_from_arrays(array(1, 1), array(1, 2))[1]", "map_from_entries(array(struct(1, 2), struct(1, 3)))[volume]",
        "str_to_map('a:1,a:2')[symbol]", "element_at(str_to_map('a:1', ',', ':'), 'a')",
        "size(MAP_FROM_ARRAYS(array(), array()))",
    )  # fmt: skip
    yield from refused("a constant that fails for all queries", Unsupported, (largest(m) for m in maps))
    yield from harmless(
        "an allowed function in odd spelling",
        [
            (largest("`UPPER` (symbol)"), largest("upper(symbol)")),
            (largest("uPpEr/*(*/(symbol)"), largest("upper(symbol)")),
            (largest("lpad(symbol, 10, ' ')"), largest("lpad(symbol, 10, ' ')")),
            (largest("if(true, upper('reflect(1)'), '')"), largest("if(TRUE, upper('reflect(1)'), '')")),
            (largest("concat('java_method', '(')"), largest("concat('java_method', '(')")),
        ],
    )


def path_tables() -> Iterator[Attack]:
    paths = ("parquet.`/etc/passwd`", "csv.`file:///etc/passwd`", "json.`/tmp/*`", "text.`/etc/shadow`", "`delta`.`/d`",
             "delta.`s3://b/k`", "binaryFile.`/etc/passwd`", "orc.`x`", "avro.`x`", "iceberg.`db.t`", "hive.default.t",
             "spark_catalog.default.trades", "default.trades", "trades.trades", "system.information_schema.tables",
             "global_temp.trades", "jdbc.`jdbc:postgresql://h/d`", "`parquet`.`/a`.`b`")  # fmt: skip
    family = "a path or another catalog's name as a table"
    yield from refused(family, Unsupported, (f"SELECT count(*) AS n FROM {p} {W}" for p in paths))
    yield from refused(
        family, Unsupported, (f"SELECT count(*) AS n FROM trades {W} JOIN {p} ON trades.symbol = x" for p in paths[:9])
    )
    names = ("`/etc/passwd`", "`parquet./etc/passwd`", "`parquet.``/etc/passwd```", "`../trades`", "`file:/etc/passwd`",
             "`trades `", "` trades`", "`trades;`", "`trades--`", "`trades/**/`", "`tra\u200cdes`", "`trаdes`",
             "`TRADES\u0301`", "`${x}`", "`trades\t`", "`trades\\`", "dual", "range", "`range(10)`")  # fmt: skip
    kinds = (UnknownStream, MalformedSQL)
    yield from refused("a name that is no stream", kinds, (f"SELECT count(*) AS n FROM {n} {W}" for n in names))
    made = (
        "(SELECT * FROM trades)", "(trades)", "((trades))", "(VALUES (1), (2)) v", "VALUES (1)",
        "LATERAL explode(tags)", "range(1000000000)", "explode(array(1))", "read_files('/etc')", "TABLE(trades)",
        "stream(trades)", "IDENTIFIER('trades')", "IDENTIFIER('tra' || 'des')", "IDENTIFIER(:t)", "'trades'",
        '"trades"', "1", "*", "(SELECT count(*) FROM trades [RANGE 1 s SLIDE 1 s])", "JSON_TABLE('[]', '$')", ":t",
        "?", "@t", "${t}", "{{ trades }}", "{trades}", "$trades", "#trades", "trades@v1", "trades@'2020-01-01'",
    )  # fmt: skip
    yield from refused("rows that no stream brings", NOT_PARSED, (f"SELECT count(*) AS n FROM {m} {W}" for m in made))
    suffixes = (
        "TABLESAMPLE (10 PERCENT)", "TABLESAMPLE (5 ROWS)", "TABLESAMPLE (BUCKET 1 OUT OF 2)", "VERSION AS OF 1",
        "TIMESTAMP AS OF '2020-01-01'", "FOR SYSTEM_TIME AS OF '2020-01-01'", "WITH (path = '/etc')",
        "OPTIONS (path '/etc')", "PIVOT (sum(price) FOR symbol IN ('A'))", "UNPIVOT (a FOR b IN (price))",
        "LATERAL VIEW explode(tags) x AS y", "LATERAL VIEW OUTER explode(tags) x", "MATCH_RECOGNIZE (PATTERN (a))",
        "CROSS JOIN listing", "FULL JOIN listing USING (symbol)", "RIGHT JOIN listing USING (symbol)",
        "NATURAL JOIN listing", "LEFT SEMI JOIN listing USING (symbol)", "LEFT ANTI JOIN listing USING (symbol)",
        "JOIN LATERAL (SELECT 1)", ", LATERAL (SELECT 1)", "JOIN (SELECT 1) x ON true", "STRAIGHT_JOIN listing",
        "ASOF JOIN quotes", "JOIN quotes ON trades.symbol = quotes.symbol", "POSITIONAL JOIN listing",
    )  # fmt: skip
    yield from refused(
        "a clause after the stream that nothing honours",
        LanguageError,
        (f"SELECT count(*) AS n FROM trades {W} {s}" for s in suffixes),
    )


def whole_statements() -> Iterator[Attack]:
    good = f"SELECT count(*) AS n FROM trades {W}"
    family = "several statements where one stands"
    endings = (
        "; DROP STREAM trades", ";DROP TABLE listing;", "; SELECT 1", ";;;DROP QUERY q", "; -- \n DROP STREAM trades",
        "\n;\nCREATE QUERY x AS " + good, "; SET x = 1", ";`", ";'", ";)",
    )  # fmt: skip
    yield from refused(family, LanguageError, (f"EXPLAIN CODEGEN {good}{e}" for e in endings))
    yield from refused(family, LanguageError, (f"{good} WHERE symbol = 'a'' ; {e}" for e in endings[:4]))
    tails = (
        "UNION ALL SELECT 1", "UNION SELECT * FROM trades", "EXCEPT SELECT 1", "MINUS SELECT 1", "INTERSECT SELECT 1",
        "ORDER BY 2", "SORT BY n", "CLUSTER BY n", "DISTRIBUTE BY n", "LIMIT 0", "LIMIT 1, 2", "LIMIT -1", "OFFSET n",
        "ORDER BY ALL", "ORDER BY n USING <", "LIMIT 1 PERCENT", "FETCH FIRST 1 ROWS ONLY", "LIMIT 1 OFFSET 1 LIMIT 1",
        "ORDER BY (SELECT 1)", "ORDER BY count(*) OVER ()", "ORDER BY rand()", "LIMIT (SELECT 1)",
        "ORDER BY n ASC DESC",
        "QUALIFY true", "WINDOW w AS (PARTITION BY symbol)", "FOR UPDATE", "INTO OUTFILE '/tmp/x'", "|> SELECT 1",
        "|> DROP n", "PROCEDURE ANALYSE()", "GROUP BY ALL, symbol", "GROUP BY ROLLUP ()",
        "GROUP BY CUBE (symbol, price", "GROUP BY symbol GROUPING SETS ((symbol), ())", "GROUP BY symbol WITH CUBES",
        "WHERE true WHERE false", "GROUP BY symbol GROUP BY price", "HAVING true HAVING false", "WHERE", "GROUP BY",
        "HAVING", "GROUP BY ()", "WITH (on_error = 'null'); DROP STREAM trades; --", "RETURNING *",
        "ON CONFLICT DO NOTHING",
    )  # fmt: skip
    yield from refused(
        "a tail that SQL has elsewhere", LanguageError, (f"EXPLAIN EXTENDED {good} {t}" for t in tails[:3])
    )
    yield from refused("a tail that SQL has elsewhere", LanguageError, (f"CREATE QUERY q AS {good} {t}" for t in tails))
    heads = (
        "WITH c AS (SELECT 1) ", "WITH RECURSIVE c AS (SELECT 1) ", "(", "FROM trades ", "EXPLAIN CODEGEN ", "CACHE ",
        "INSERT INTO trades ", "INSERT OVERWRITE DIRECTORY '/tmp' USING csv ", "CREATE VIEW v AS ",
        "CREATE OR REPLACE TEMPORARY VIEW v AS ", "CREATE TABLE t USING csv AS ", "SELECT 1 UNION ", "BEGIN ", "@",
        "?", "EXECUTE IMMEDIATE ", "DECLARE x = ", "SET VAR x = ", "MERGE INTO trades USING ", "COPY INTO t FROM ",
    )  # fmt: skip
    yield from refused("a head that SQL has elsewhere", LanguageError, (h + good for h in heads))
    others = (
        "SET spark.sql.ansi.enabled = false", "SET", "SET -v", "RESET", "USE default", "ADD JAR '/tmp/evil.jar'",
        "ADD FILE '/etc/passwd'", "LIST FILES", "LOAD DATA INPATH '/etc/passwd' INTO TABLE t",
        "GRANT ALL ON trades TO x", "CREATE DATABASE x LOCATION '/tmp'",
        "CREATE FUNCTION f AS 'evil.Class' USING JAR '/tmp/evil.jar'", "CREATE TEMPORARY FUNCTION f AS 'evil.Class'",
        "REFRESH '/etc'", "MSCK REPAIR TABLE t", "CACHE TABLE trades", "UNCACHE TABLE trades", "CLEAR CACHE",
        "TRUNCATE TABLE listing", "ANALYZE TABLE listing COMPUTE STATISTICS", "INSERT INTO listing VALUES ('A')",
        "DELETE FROM listing", "UPDATE listing SET symbol = 'x'", "VALUES (1)", "CALL sys.kill(1)", "TABLE trades",
        "FROM trades SELECT 1", "DECLARE VARIABLE x INT", "COMMENT ON TABLE t IS 'x'",
        "SELECT TRANSFORM(symbol) USING 'rm -rf /' FROM trades", "MAP symbol USING 'cat'",
        "REDUCE symbol USING 'cat'", "CREATE TABLE t (a int) USING csv LOCATION '/etc'",
        "CREATE EXTERNAL TABLE t (a int) STORED AS TEXTFILE", "CREATE TABLE t LIKE listing",
        "CREATE INDEX i ON listing (symbol)", "DROP DATABASE default CASCADE", "DROP VIEW v",
        "DROP TABLE listing PURGE", "DROP STREAM trades CASCADE", "ALTER TABLE listing RENAME TO x",
        "SHOW GRANTS", "SHOW TBLPROPERTIES t", "KILL 1", "SHUTDOWN", "ATTACH '/etc/passwd'", "PRAGMA x",
        "INSTALL httpfs", "EXPORT DATABASE '/tmp'", "VACUUM t", "OPTIMIZE t", "RESTORE TABLE t", "! ls", "\\! ls",
        ".shell ls", "%sh ls",
    )  # fmt: skip
    yield from refused("a statement that Penstock has not", LanguageError, others)
