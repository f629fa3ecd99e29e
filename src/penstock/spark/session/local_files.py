"""Lets the embedded Spark write local files without starting a process for each of them.

Spark writes three small files a batch, and a checksum beside each. For every one of them Hadoop sets permissions, and
without its native library it does so by starting the program ``chmod``: six processes a batch, which took as long as
all else that Spark does for an empty batch. Java can set permissions by itself.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from penstock.model.switches import is_off
from penstock.spark.session.java_classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG: Final = logging.getLogger("penstock")
SWITCH: Final = "PENSTOCK_LOCAL_FILES"  # an environment variable: `off` leaves local files to Hadoop


def set_permissions_within_java(session: SparkSession) -> bool:
    """Give Hadoop's local file system of this JVM one below that starts no process; False: it is left as it was."""
    if is_off(SWITCH):
        return False
    context: Any = session.sparkContext
    try:
        _put_below(context, context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration()))
    except Py4JError as error:  # another Hadoop than the one that this was written for: slower, not wrong
        LOG.debug("local files are left to Hadoop: %s", error)
        return False
    return True


def _put_below(context: Any, local: Any) -> None:
    """Put our file system below the one that everybody in this JVM is given for local files."""
    jvm, new_array = context._jvm, context._gateway.new_array
    if jvm.org.apache.hadoop.io.nativeio.NativeIO.isAvailable():
        return
    below = java_class(jvm, "LocalFiles").getConstructors()[0].newInstance(new_array(jvm.java.lang.Object, 0))
    below.initialize(local.getUri(), context._jsc.hadoopConfiguration())
    field = jvm.java.lang.Class.forName("org.apache.hadoop.fs.FilterFileSystem").getDeclaredField("fs")
    field.setAccessible(True)
    field.set(local, below)
