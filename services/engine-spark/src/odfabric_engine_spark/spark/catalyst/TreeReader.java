import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionId;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.types.DataType;

/**
 * The JVM's half of `tree_reader`: many objects told in one answer. Compiled by Janino when an engine starts, which knows no generics
 * and no lambdas.
 *
 * Each object is a line: its id, its class, its column id, and its kind; a dash stands for what it does not have, or for a value that
 * is no plain reference.
 */
public class TreeReader {
  private static final String INPUT = "odf.input";

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
    return list(objects(ids));
  }

  /**
   * A list of values under the names, ids and types of columns, both by their own ids, with spaces between them. What they are made of is
   * resolved: a cast between times needs the zone of the session, which is always UTC.
   */
  public Object asColumns(String values, String columns) {
    Object[] each = objects(values);
    Object[] like = objects(columns);
    for (int at = 0; at < each.length; at++) {
      Expression value = (Expression) each[at];
      AttributeReference column = (AttributeReference) like[at];
      if (!DataTypeUtils$.MODULE$.sameType(value.dataType(), column.dataType())) {
        value = (Expression) ((Cast) Cast$.MODULE$.apply(value, column.dataType().asNullable(), true)).withTimeZone("UTC");
      }
      each[at] = new Alias(value, column.name(), column.exprId(), list(new Object[0]), scala.Option.empty(), list(new Object[0]));
    }
    return list(each);
  }

  private Object[] objects(String ids) {
    if (ids.length() == 0) {
      return new Object[0];
    }
    String[] each = ids.split(" ");
    Object[] values = new Object[each.length];
    for (int at = 0; at < each.length; at++) {
      values[at] = gateway.getObject(each[at]);
    }
    return values;
  }

  private scala.collection.immutable.List list(Object[] values) {
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

  /**
   * All that a plan says, without the ids that each reading gives out anew. Parsed plans of one text say the same. Of plans over inputs
   * columns that nobody reads are no part, nor are names of columns that the plan makes.
   */
  public String meaning(Object plan, boolean parsed) {
    StringBuilder told = new StringBuilder();
    Map known = new HashMap();
    say(plan, told, known, parsed);
    if (!parsed) {
      sayOutput((QueryPlan) plan, told, known);
    }
    return told.toString();
  }

  private void say(Object value, StringBuilder told, Map known, boolean parsed) {
    if (value == null || value instanceof Number || value instanceof Boolean || value instanceof Character) {
      told.append(value == null ? "" : value.getClass().getName()).append(' ').append(value).append(';');
    } else if (value instanceof String || value instanceof scala.Enumeration.Value || isPlainValue(value)) {
      String text = value.toString();
      told.append(value.getClass().getName()).append(text.length()).append(':').append(text).append(';');
    } else if (value instanceof DataType) {
      told.append(((DataType) value).json()).append(';');
    } else if (value instanceof byte[]) {
      told.append(Arrays.toString((byte[]) value)).append(';');
    } else if (value instanceof ExprId) {
      return;
    } else if (value instanceof CommonExpressionId) {
      sayNumber("common " + ((CommonExpressionId) value).id(), told, known);
    } else if (value instanceof AttributeReference || value instanceof NamedLambdaVariable) {
      sayColumn((NamedExpression) value, told, known);
    } else if (value instanceof LocalRelation && isInput((LocalRelation) value)) {
      told.append("input ").append(mark((AttributeReference) ((LocalRelation) value).output().head())).append(';');
    } else if (value instanceof TreeNode) {
      sayNode((TreeNode) value, told, known, parsed);
    } else if (value instanceof scala.collection.Map || value instanceof scala.collection.Set) {
      sayUnordered(((scala.collection.Iterable) value).iterator(), told, known, parsed);
    } else if (value instanceof scala.collection.Iterable) {
      told.append('[');
      scala.collection.Iterator each = ((scala.collection.Iterable) value).iterator();
      while (each.hasNext()) {
        say(each.next(), told, known, parsed);
      }
      told.append(']');
    } else if (value instanceof java.util.Map) {
      told.append(new java.util.TreeMap((java.util.Map) value)).append(';');
    } else if (value instanceof scala.Product) {
      told.append(value.getClass().getName()).append('(');
      scala.collection.Iterator each = ((scala.Product) value).productIterator();
      while (each.hasNext()) {
        say(each.next(), told, known, parsed);
      }
      told.append(')');
    } else {
      // What nothing is known of is never the same in two texts; of two readings of one text it is.
      told.append(value.getClass().getName()).append(parsed ? Integer.toString(System.identityHashCode(value)) : "").append(';');
    }
  }

  private void sayNode(TreeNode node, StringBuilder told, Map known, boolean parsed) {
    if (!parsed && node instanceof Project && isSelection((Project) node)) {
      // Columns are told where they are read, and where their order counts.
      say(((Project) node).child(), told, known, parsed);
      return;
    }
    told.append(node.getClass().getName()).append('(');
    // Where a node holds its children, alone or in lists, only their numbers stand: each is told once.
    java.util.IdentityHashMap numbers = new java.util.IdentityHashMap();
    scala.collection.Iterator below = node.children().iterator();
    while (below.hasNext()) {
      Object child = below.next();
      numbers.put(child, Integer.toString(numbers.size()));
      say(child, told, known, parsed);
      if (!parsed && node instanceof Union) {
        sayOutput((QueryPlan) child, told, known);
      }
    }
    if (node instanceof Alias && !parsed) {
      sayNumber("column " + ((Alias) node).exprId().id(), told, known);
    } else {
      scala.collection.Iterator each = ((scala.Product) node).productIterator();
      while (each.hasNext()) {
        sayElement(each.next(), numbers, told, known, parsed);
      }
    }
    told.append(')');
  }

  private void sayElement(Object element, java.util.IdentityHashMap numbers, StringBuilder told, Map known, boolean parsed) {
    if (element instanceof TreeNode && numbers.containsKey(element)) {
      told.append('^').append(numbers.get(element)).append(';');
    } else if (element instanceof scala.collection.immutable.Seq || element instanceof scala.Option
        || element instanceof scala.Tuple2) {
      told.append('[');
      scala.collection.Iterator each = element instanceof scala.collection.Iterable
          ? ((scala.collection.Iterable) element).iterator()
          : ((scala.Product) element).productIterator();
      while (each.hasNext()) {
        sayElement(each.next(), numbers, told, known, parsed);
      }
      told.append(']');
    } else {
      say(element, told, known, parsed);
    }
  }

  private void sayOutput(QueryPlan plan, StringBuilder told, Map known) {
    scala.collection.Iterator each = plan.output().iterator();
    while (each.hasNext()) {
      sayColumn((NamedExpression) each.next(), told, known);
    }
  }

  private boolean isSelection(Project project) {
    scala.collection.Iterator each = project.projectList().iterator();
    while (each.hasNext()) {
      if (!(each.next() instanceof AttributeReference)) {
        return false;
      }
    }
    return true;
  }

  private void sayColumn(NamedExpression column, StringBuilder told, Map known) {
    sayNumber("column " + column.exprId().id(), told, known);
    Expression value = (Expression) column;
    told.append(value.dataType().json()).append(value.nullable());
    if (column instanceof AttributeReference && column.metadata().contains(INPUT)) {
      told.append(mark((AttributeReference) column)).append('.').append(column.name());
    }
    told.append(';');
  }

  private void sayNumber(String id, StringBuilder told, Map known) {
    if (!known.containsKey(id)) {
      known.put(id, Integer.toString(known.size()));
    }
    told.append('#').append(known.get(id)).append(' ');
  }

  private void sayUnordered(scala.collection.Iterator each, StringBuilder told, Map known, boolean parsed) {
    TreeSet texts = new TreeSet();
    while (each.hasNext()) {
      StringBuilder text = new StringBuilder();
      say(each.next(), text, known, parsed);
      texts.add(text.toString());
    }
    told.append(texts).append(';');
  }

  private boolean isPlainValue(Object value) {
    return value instanceof org.apache.spark.unsafe.types.UTF8String || value instanceof org.apache.spark.sql.types.Decimal
        || value instanceof org.apache.spark.unsafe.types.CalendarInterval || value instanceof java.math.BigDecimal
        || value instanceof scala.math.BigDecimal || value instanceof java.math.BigInteger;
  }

  private boolean isInput(LocalRelation relation) {
    return relation.output().nonEmpty() && ((AttributeReference) relation.output().head()).metadata().contains(INPUT);
  }

  private String mark(AttributeReference column) {
    return column.metadata().getString(INPUT);
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
