import java.util.ArrayDeque;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * The JVM's half of `tree_reader`: many objects told in one answer. Compiled by Janino when an engine starts, which knows no generics
 * and no lambdas.
 *
 * Each object is a line: its id, its class, its column id, and its kind; a dash stands for what it does not have, or for a value that
 * is no plain reference.
 */
public class TreeReader {
  private final py4j.Gateway gateway;

  public TreeReader(py4j.Gateway gateway) {
    this.gateway = gateway;
  }

  /** Members of a collection, or the elements of a product. */
  public String items(Object of) {
    return told(of instanceof scala.collection.Iterable
        ? ((scala.collection.Iterable) of).iterator()
        : ((scala.Product) of).productIterator());
  }

  public String children(Object node) {
    return told(((TreeNode) node).children().iterator());
  }

  public String expressions(Object plan) {
    return told(((QueryPlan) plan).expressions().iterator());
  }

  public String output(Object plan) {
    return told(((QueryPlan) plan).output().iterator());
  }

  /** A node and all below it, parents first, from left to right. */
  public String below(Object node) {
    StringBuilder found = new StringBuilder();
    ArrayDeque waiting = new ArrayDeque();
    waiting.push(node);
    while (!waiting.isEmpty()) {
      TreeNode next = (TreeNode) waiting.pop();
      tell(found, next);
      ArrayDeque own = new ArrayDeque();
      scala.collection.Iterator each = next.children().iterator();
      while (each.hasNext()) {
        own.push(each.next());
      }
      while (!own.isEmpty()) {
        waiting.push(own.pop());
      }
    }
    return found.toString();
  }

  public long columnId(Object named) {
    return ((NamedExpression) named).exprId().id();
  }

  public boolean isA(Object value, String className) throws ClassNotFoundException {
    return Class.forName(className, false, Thread.currentThread().getContextClassLoader()).isInstance(value);
  }

  /** A list of objects by their ids, with spaces between them. */
  public Object seq(String ids) {
    Object[] values = new Object[0];
    if (ids.length() > 0) {
      String[] each = ids.split(" ");
      values = new Object[each.length];
      for (int at = 0; at < each.length; at++) {
        values[at] = gateway.getObject(each[at]);
      }
    }
    scala.collection.immutable.List found = scala.collection.immutable.List$.MODULE$.empty();
    for (int at = values.length - 1; at >= 0; at--) {
      found = found.$colon$colon(values[at]);
    }
    return found;
  }

  /** A copy of a node with some elements replaced: "position:id", with spaces between them. */
  public Object copied(Object node, String changes) {
    scala.Product product = (scala.Product) node;
    Object[] elements = new Object[product.productArity()];
    for (int at = 0; at < elements.length; at++) {
      elements[at] = product.productElement(at);
    }
    String[] each = changes.split(" ");
    for (int at = 0; at < each.length; at++) {
      String[] change = each[at].split(":");
      elements[Integer.parseInt(change[0])] = gateway.getObject(change[1]);
    }
    return ((TreeNode) node).makeCopy(elements);
  }

  /** Forgets objects by their ids, with spaces between them. */
  public void release(String ids) {
    String[] each = ids.split(" ");
    for (int at = 0; at < each.length; at++) {
      gateway.deleteObject(each[at]);
    }
  }

  private String told(scala.collection.Iterator each) {
    StringBuilder found = new StringBuilder();
    while (each.hasNext()) {
      tell(found, each.next());
    }
    return found.toString();
  }

  private void tell(StringBuilder found, Object value) {
    if (!isReference(value)) {
      found.append("- - - -\n");
      return;
    }
    found.append(gateway.putNewObject(value)).append(' ').append(value.getClass().getName()).append(' ');
    if (value instanceof AttributeReference || value instanceof Alias) {
      found.append(((NamedExpression) value).exprId().id());
    } else {
      found.append('-');
    }
    found.append(' ').append(kind(value)).append('\n');
  }

  private char kind(Object value) {
    if (value instanceof Expression) {
      return 'e';
    }
    if (value instanceof scala.collection.immutable.Seq) {
      return 's';
    }
    return value instanceof scala.Some ? 'o' : '-';
  }

  /** What Py4J hands over as a reference: it makes values or collections of its own of all else. */
  private boolean isReference(Object value) {
    return value != null && !(value instanceof String || value instanceof Number || value instanceof Boolean
        || value instanceof Character || value instanceof java.util.Collection || value instanceof java.util.Map
        || value instanceof java.util.Iterator || value.getClass().isArray());
  }
}
