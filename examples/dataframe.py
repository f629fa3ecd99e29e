"""Penstock inside a Spark program that is there already: its session, its streaming DataFrame, its tables."""

import tempfile

from pyspark.sql import SparkSession

import penstock as ps

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "2")  # Spark's own default of 200 is for large clusters
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")

with tempfile.TemporaryDirectory() as folder:
    # What the program has: readings of nine sensors, one a second for two hours, and a table of rooms.
    readings = spark.range(7200).selectExpr(
        "timestamp_seconds(1767600000 + id) AS at",
        "id % 9 AS sensor",
        "CAST(15 + (id DIV 600) % 5 + id % 9 AS DECIMAL(4, 1)) AS celsius",
    )
    readings.repartitionByRange(4, "at").write.parquet(f"{folder}/readings")
    places = [(0, "lab"), (1, "lab"), (2, "hall"), (3, "hall"), (4, "roof")]
    rooms = spark.createDataFrame(places, "sensor INT, room STRING")
    stream = spark.readStream.schema(readings.schema).parquet(f"{folder}/readings")

    # What Penstock adds. The program's own columns may be computed before: any streaming DataFrame will do.
    warm = stream.selectExpr("*", "celsius > 20 AS warm")
    with ps.Engine(spark=spark) as engine:
        engine.create_stream("readings", warm, time="at", lateness="10 min")
        engine.create_table("rooms", rooms)
        engine.create_query(
            "climate",
            "SELECT room, avg(celsius) AS mean, max(celsius) AS highest, count(*) AS n "
            "FROM readings [RANGE 1 h SLIDE 30 min] JOIN rooms USING (sensor) GROUP BY room",
        )
        engine.create_query("alarms", "SELECT count(*) AS n FROM readings [RANGE 20 min SLIDE 20 min] WHERE warm")
        engine.process_available(flush=True)

        # Answers are Arrow tables; Spark takes them back as they are.
        spark.createDataFrame(engine.results("climate")).drop("window_start").show(6, truncate=False)
        spark.createDataFrame(engine.results("alarms")).show(truncate=False)

spark.stop()
