"""Attacks by how they are written: comments, quotes, letters, variables."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import LanguageError, MalformedSQL
from tests.language.attack import NOT_PARSED, Attack, W, harmless, refused, where


def comments_and_hints() -> Iterator[Attack]:
    family = "a comment hides nothing that runs"
    plain = where("volume > 5")
    yield from harmless(
        family,
        [
            (where("volume > 5 -- OR true"), plain),
            (where("volume > 5 /* OR true */"), plain),
            (where("volume > 5 /* a /* nested */ OR true */"), plain),
            (where("volume/**/>/**/5"), plain),
            (where("volume > 5 --\r"), plain),
            (where("volume > 5 /* -- */"), plain),
            (where("volume > 5 -- /* \n"), plain),
            (where("volume > 5 /*! OR true */"), plain),
            (where("volume > 5 /*+ OR true */"), plain),
            (where("volume > 5 -- ' ` \" \n -- ;"), plain),
            (where("volume > --\n5"), plain),
            (where("symbol = '-- x' AND volume > 5"), where("symbol = '-- x' AND volume > 5")),
            (where("symbol = '/* x' AND symbol <> '*/'"), where("symbol = '/* x' AND symbol <> '*/'")),
            (where("volume - -5 > - - 5"), where("volume - -5 > -(-5)")),
        ],
    )
    hints = (
        "/*+ BROADCAST(trades) */",
        "/*+ REPARTITION(1000000) */",
        "/*+ COALESCE(1), MERGE(a) */",
        "/*+*/",
        "/*+ */",
    )
    yield from refused(
        "a hint is refused", NOT_PARSED, (f"SELECT {hint} count(*) AS n FROM trades {W}" for hint in hints)
    )
    open_ = (
        "volume > 5 /*", "volume > 5 /* /* */", "volume > 5 /* x", "volume > 5 /*/", "symbol = 'x", 'symbol = "x',
        "`symbol = 'x'", "symbol = 'x\\'", "symbol = ''' ", "symbol = 'a' 'b", "symbol = r'", "symbol = x'", "`", "'",
        '"', "volume > 5 */", "volume > 5 /+ */", "{# hidden #} volume > 5", "volume > 5 {# -- #}", "{#", "{##}",
        "{% raw %}", "{{ 1 }} = 1", "{% if x %} volume", "volume > {{ n }}", "symbol = '{{' || {{ x }}",
    )  # fmt: skip
    yield from refused("an open quote, comment or template", NOT_PARSED, (where(o) for o in open_))


def quotes() -> Iterator[Attack]:
    family = "a string stays a string"
    values = {
        r"'\''": r"'\''", "''''": r"'\''", "'a''b'": r"'a\'b'", r"'\\'": r"'\\'", r"'a\\' || 'b'": r"'a\\' || 'b'",
        r"'\u0027 OR 1=1 --'": r"'\' OR 1=1 --'", r"'\047 OR 1=1 --'": r"'\' OR 1=1 --'", '"a\'b"': r"'a\'b'",
        '"a""b"': "'a\"b'", "'a' 'b'": "'ab'", "'a' \"b\"": "'ab'", "'a'\n'b'": "'ab'", "'a' /* ' */ 'b'": "'ab'",
        r"r'\'": r"'\\'", r"R'\u0027'": r"'\\u0027'", r'r"\"': r"'\\'", r"'\%'": r"'\\%'", r"'\_\\_'": r"'\\_\\_'",
        "'＇ OR 1=1'": "'＇ OR 1=1'", "'‘’ʼ′´`'": "'‘’ʼ′´`'", "'${env:HOME}'": r"'\u0024{env:HOME}'",
        "'$' '{x}'": r"'\u0024{x}'", r"'\u0024{x}'": r"'\u0024{x}'", r"'$\{x}'": r"'\u0024{x}'",
        "'${spark.app.name}${system:user.home}'": r"'\u0024{spark.app.name}\u0024{system:user.home}'",
        "'$${x}'": r"'$\u0024{x}'", "'{{x}}{%x%}{#x#}'": "'{{x}}{%x%}{#x#}'",
        "'; DROP STREAM trades; --'": "'; DROP STREAM trades; --'",
        "'\\n\\r\\t\\b\\0\\Z'": r"'\n\u000d\t\u0008\u0000\u001a'", "'\u200b\u200d\xa0'": r"'\u200b\u200d\u00a0'",
        r"'\u202e'": r"'\u202e'", "'\U000e0041'": r"'\U000e0041'", r"'\ud83d\ude00'": "'😀'",
        "':x ?1 @y'": "':x ?1 @y'", "'%s %(x)s'": "'%s %(x)s'", "'\n'": r"'\n'",
    }  # fmt: skip
    yield from harmless(family, ((where(f"symbol = {v}"), where(f"symbol = {c}")) for v, c in values.items()))
    broken = (
        r"'\'", "'''", "'a'b'", "'a' OR 'b''", "''a''", r"'\ud83d'", r"'\udc00\ud800'", r"'\U00110000'",
        r"'\Uffffffff'", "＇x＇", "‘x’", "´x´", "'x＇", "N'x'", "n'x' ", "E'x'", "U&'\\0027'", "$$x$$", "$t$x$t$",
        "q'[x]'", "b'01'", "_utf8'x'", "0x27", "x'2", "X'zz'", "X'1'1", "x 'ff'", "'x'::'y'", "'x'.y.", "'a' + + 'b'",
        "\"a\"\"", "`a`b`", "`a```b`",
    )  # fmt: skip
    yield from refused("a string that is none", LanguageError, (where(f"symbol = {b}") for b in broken))
    names = (
        "`a``", "``", "` `", "```", "`a`.`b`.`c`", "`symbol``; --`", "`symbol` `x`", "`${env:HOME}`", "`a${x}`",
        "`symbol\\``", "`trades.symbol`", "`sym\nbol`", "`symbol\u200b`", "`\u202elobmys`", "`symbol\u0301`",
        "`ѕymbol`", "`ｓymbol`", "`symbol\xa0`", "`sym\xadbol`", "`symbol\u2060`", "`\U000e0073`",
        "`listing#000000.symbol`", "`" + "x" * 256 + "`", "`" + "x" * 90_000 + "`", "`" + "`" * 500 + "`", "[symbol]",
        "symbol.", ".symbol", "symbol..x", "trades.trades.symbol", "0.symbol", "`0`", "`0`.`symbol`", "`1`.`symbol`",
    )  # fmt: skip
    yield from refused("a name that is no column", LanguageError, (where(f"{n} = 'x'") for n in names))


def unicode() -> Iterator[Attack]:
    bare = (
        "ſymbol", "symbοl", "ѕymbol", "ｓｙｍｂｏｌ",
        "sym\u200bbol", "sym\u200dbol", "symbol\u0301", "\u2118x", "\u212a",
        "ﬁ", "ß", "İ", "ı", "𝐬𝐲𝐦𝐛𝐨𝐥", "sуmbol", "Ａ", "符号", "𐒀", "é", "e\u0301", "symbol\u034f", "symbol\ufe0f",
        "\U0001f4a9", "²", "½", "١", "１",
    )  # fmt: skip
    yield from refused("letters that look like others", MalformedSQL, (where(f"{b} = 'x'") for b in bare))
    marks = "\x00\x01\x08\x0b\x0c\x0e\x1a\x1b\x1f\x7f\x80\x85\x9b\x9f\u061c\u200e\u200f\u2028\u2029\ufeff"
    marks += "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    for mark in marks:
        name = "a character that hides or turns the text"
        yield from refused(name, MalformedSQL, [where(f"symbol = 'a{mark}b'"), where(f"symbol{mark} = 'a'")])
    for text in (
        where("`a\u202eb` = 1"),
        where("1 = 1 -- \u2066 x"),
        where("1 = 1 /* \x1b[2J */"),
        f"SELECT count(*) \ufeffFROM trades {W}",
    ):
        yield from refused("a character that hides or turns the text", MalformedSQL, [text])
    halves = ("\ud800", "\udfff", "\udc00\ud800", "a\ud83d", "'\ud83d'", "`\udead`", "-- \ud800")
    yield from refused("half a character", MalformedSQL, (where(f"symbol = {h}") for h in halves))
    words = (
        "ſELECT count(*) AS n FROM trades {}", "SELECT count(*) AS n FROM tradeſ {}",
        "SELECT count(＊) AS n FROM trades {}", "SELECT count（*） AS n FROM trades {}",
        "SELECT count(*) AS n FROM trades ［RANGE 1 s SLIDE 1 s］", "SELECT count(*) AS n， 1 FROM trades {}",
        "SELECT count(*) AS n FROM trades {}；DROP STREAM trades", "SELECT\u3164count(*) AS n FROM trades {}",
        "SELECT count(*) AS n FROM trades {} WHERE volume ＞ 5", "SELECT count(*) AS ｎ FROM trades {}",
        "SELECT count(*) AS n FROM trades ｛｝", "ＳＥＬＥＣＴ 1", "ＤＲＯＰ STREAM trades", "DROP STREAM trades\u037e",
        "ᎠROP STREAM trades", "SELECT count(*) AS n FROM trades croß JOIN listing",
    )  # fmt: skip
    yield from refused("signs that look like others", MalformedSQL, (text.replace("{}", W) for text in words))
    yield from harmless(
        "a byte order mark and odd spaces are space",
        [
            ("\ufeff" + where("volume > 5"), where("volume > 5")),
            (where("volume\xa0>\u30005"), where("volume > 5")),
            (where("volume\t>\r\n5"), where("volume > 5")),
        ],
    )


def substitution() -> Iterator[Attack]:
    forms = (
        "${spark.app.name}", "${env:HOME}", "${system:user.home}", "${hiveconf:x}", "${x}", "$x", "$1", "$$", "${",
        "$", ":x", ":1", "?", "?1", "@x", "@@version", "%s", "%(x)s", "{x}", "{0}", "{{x}}", "{% x %}", "#x", "#{x}",
        "&x", "&&x", "~~x~", "IDENTIFIER('symbol')", "IDENTIFIER('sym' || 'bol')", "session.x", "system.session.x",
        "VARIABLE(x)", "(VALUES 1)", "(SELECT 1)", "(TABLE listing)", "(WITH c AS (SELECT 1) SELECT * FROM c)",
        "EXISTS (SELECT 1)", "ALL (SELECT 1)", "ANY (SELECT 1)", "symbol IN (SELECT symbol FROM listing)", "(1, 2)",
        "(symbol, price) IN ((1, 2))", "ARRAY(SELECT 1)", "MAP {1: 2}", "{'a': 1}", "ROW(1, 2)", "x -> x", "x => x",
        "a := 1", "symbol := 'x'", "a.b:c", "s:a", "s->'a'", "s->>'a'", "symbol ~ 'x'", "symbol !~ 'x'",
        "symbol @> 'x'", "symbol SIMILAR TO 'x'", "symbol COLLATE x", "symbol GLOB 'x'", "symbol MATCH 'x'",
        "symbol ** 2", "symbol // 2", "symbol \\ 2", "symbol !! 2", "symbol ?? 2", "symbol AT TIME ZONE 'UTC'",
        "symbol OVERLAPS symbol", "PRIOR symbol", "CONNECT_BY_ROOT symbol", "symbol ISNULL", "symbol NOTNULL",
        "symbol LIKE ALL ('a')", "symbol LIKE ANY ('a')", "symbol BETWEEN SYMMETRIC 1 AND 2", "CURRENT ROW",
        "GROUPING(symbol)", "NEXT VALUE FOR x", "symbol[1:2]", "symbol[:]", "symbol[]", "tags[1, 2]", "*", "trades.*",
        "1 = *",
    )  # fmt: skip
    kinds = (LanguageError,)
    yield from refused(
        "variables, parameters and foreign syntax", kinds, (where(f"({form}) IS NOT NULL") for form in forms)
    )
