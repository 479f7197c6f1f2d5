"""Nodes of which a JVM has one for all queries know the text of none."""

from __future__ import annotations

import pytest

from odfabric_engine_spark.spark.catalyst.shared_nodes import SHARED_NODES
from odfabric_engine_spark.spark.jvm.jvm_process import spark_jars
from odfabric_engine_spark.spark.session import SparkProcess

pytestmark = pytest.mark.spark

_FINDER = """
import java.lang.reflect.Field;
import java.util.Enumeration;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.apache.spark.sql.catalyst.trees.TreeNode;

public class Finder {
  /** Singletons of a jar that are nodes, or hold some. */
  public String within(String jar) throws Exception {
    StringBuilder found = new StringBuilder();
    Enumeration entries = new ZipFile(jar).entries();
    while (entries.hasMoreElements()) {
      String name = ((ZipEntry) entries.nextElement()).getName();
      if (name.endsWith("$.class")) {
        name = name.substring(0, name.length() - 6).replace('/', '.');
        if (hasNodes(name)) {
          found.append(name).append('\\n');
        }
      }
    }
    return found.toString();
  }

  /** Texts that the nodes of a singleton know. */
  public String texts(String name) throws Exception {
    Class singleton = Class.forName(name);
    StringBuilder found = new StringBuilder();
    Field[] fields = singleton.getDeclaredFields();
    for (int at = 0; at < fields.length; at++) {
      if (TreeNode.class.isAssignableFrom(fields[at].getType())) {
        fields[at].setAccessible(true);
        Object node = fields[at].get(fields[at].getName().equals("MODULE$") ? null : module(singleton));
        found.append(((TreeNode) node).origin().sqlText()).append('\\n');
      }
    }
    return found.toString();
  }

  private Object module(Class singleton) throws Exception {
    return singleton.getField("MODULE$").get(null);
  }

  private boolean hasNodes(String name) {
    try {
      Class found = Class.forName(name, false, Thread.currentThread().getContextClassLoader());
      Field[] fields = found.getDeclaredFields();
      boolean single = false;
      boolean holds = TreeNode.class.isAssignableFrom(found);
      for (int at = 0; at < fields.length; at++) {
        single = single || fields[at].getName().equals("MODULE$");
        holds = holds || TreeNode.class.isAssignableFrom(fields[at].getType());
      }
      return single && holds;
    } catch (LinkageError missing) {
      return false;
    } catch (ClassNotFoundException missing) {
      return false;
    }
  }
}
"""

QUERY = (
    "select struct(*) s, true t, false f, array_sort(array(a)) o,"
    " sum(a) over (order by a rows between unbounded preceding and unbounded following) u, ntile(2) over (order by a) n"
    " from values (1) v(a)"
)


def test_they_know_no_text(spark: SparkProcess) -> None:
    spark.session.sql(QUERY).collect()
    jvm = spark.session._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_FINDER)
    finder = compiler.getClassLoader().loadClass("Finder").getDeclaredConstructor(None).newInstance(None)
    names = {name for jar in sorted(spark_jars().glob("spark-*.jar")) for name in finder.within(str(jar)).splitlines()}
    assert {name.rstrip("$") for name in names} == set(SHARED_NODES)
    for name in sorted(names):
        assert set(finder.texts(name).splitlines()) == {"None"}, name
