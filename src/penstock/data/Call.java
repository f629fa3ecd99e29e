package penstock;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Builds the expression for a call of a user's Python function when Spark resolves its name (spark/functions.py).
 *
 * <p>Janino, which comes with Spark, compiles this in the driver; it knows no generics.
 */
public class Call extends AbstractFunction1 {
    private final UserDefinedPythonFunction function;
    private final Expression always; // true, which the optimizer does not see (spark/attempt.py)

    public Call(UserDefinedPythonFunction function, Expression always) {
        this.function = function;
        this.always = always;
    }

    public Object apply(Object arguments) {
        List attempted = new ArrayList();
        List again = new ArrayList();
        again.add(text("an argument failed"));
        Iterator each = CollectionConverters.asJava((Seq) arguments).iterator();
        while (each.hasNext()) {
            Expression argument = (Expression) each.next();
            attempted.add(cannotFail(argument) ? argument : attempt(argument));
            again.add(new If(new IsNull(argument), text(""), text(" "))); // raises what the argument raises
        }
        Expression called = function.builder(seq(attempted));
        Expression value = new GetStructField(called, 0, Option.apply("value"));
        Expression error = new GetStructField(called, 1, Option.apply("error"));
        Expression why = new If(new EqualTo(error, text("")), new Concat(seq(again)), error);
        return new If(new IsNull(error), value, new RaiseError(why));
    }

    private boolean cannotFail(Expression argument) {
        if (argument instanceof Cast) {
            Cast cast = (Cast) argument;
            return cast.child() instanceof Attribute && Cast.canUpCast(cast.child().dataType(), cast.dataType());
        }
        return argument instanceof Attribute || argument instanceof Literal;
    }

    /** As attempt_struct of spark/attempt.py: NULL where the argument fails. */
    private Expression attempt(Expression argument) {
        List branch = new ArrayList();
        branch.add(new Tuple2(always, argument));
        List field = new ArrayList();
        field.add(text("#v"));
        field.add(new CaseWhen(seq(branch), Option.apply(null)));
        return new TryEval(new CreateNamedStruct(seq(field)));
    }

    private Expression text(String value) {
        return new Literal(UTF8String.fromString(value), StringType$.MODULE$);
    }

    private Seq seq(List list) {
        return (Seq) CollectionConverters.asScala(list).toList();
    }
}
