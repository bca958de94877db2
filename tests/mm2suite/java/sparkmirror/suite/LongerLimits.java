package sparkmirror.suite;

import java.nio.file.Path;
import javassist.ClassPool;
import javassist.CtClass;
import javassist.CtMethod;

/**
 * Writes copies of three helpers of the tests in which a time limit that is passed in is multiplied by `suite.patience`.
 * What is waited for stays as it is, and the tests' own classes are not touched. Arguments: the directory to write to.
 */
public final class LongerLimits {
    private static final String FACTOR = "sparkmirror.suite.Settings.patience()";

    private LongerLimits() {
    }

    public static void main(String[] arguments) throws Exception {
        String directory = Path.of(arguments[0]).toString();
        ClassPool pool = ClassPool.getDefault();
        conditions(pool).writeFile(directory);
        reading(pool).writeFile(directory);
        writing(pool).writeFile(directory);
    }

    /** waitForCondition and retryOnExceptionWithTimeout: all of them end in one method. */
    private static CtClass conditions(ClassPool pool) throws Exception {
        CtClass utils = pool.get("org.apache.kafka.test.TestUtils");
        multiply(utils, "retryOnExceptionWithTimeout", 3, 1);
        return utils;
    }

    private static CtClass reading(ClassPool pool) throws Exception {
        CtClass cluster = pool.get("org.apache.kafka.connect.util.clusters.EmbeddedKafkaCluster");
        multiply(cluster, "consume", 4, 2);
        multiply(cluster, "consumeAll", 4, 1);
        return cluster;
    }

    /** The tests give themselves Time.SYSTEM.timer(20000) for writing a hundred records. Nothing else of 20 s is a timer. */
    private static CtClass writing(ClassPool pool) throws Exception {
        CtClass time = pool.get("org.apache.kafka.common.utils.Time");
        time.getDeclaredMethod("timer", new CtClass[] {CtClass.longType})
            .insertBefore("if ($1 == 20000L) { $1 = 20000L * " + FACTOR + "; }");
        return time;
    }

    private static void multiply(CtClass owner, String name, int parameters, int limit) throws Exception {
        int changed = 0;
        for (CtMethod method : owner.getDeclaredMethods(name)) {
            if (method.getParameterTypes().length == parameters) {
                method.insertBefore("$" + limit + " = $" + limit + " * " + FACTOR + ";");
                changed++;
            }
        }
        if (changed == 0) {
            throw new IllegalStateException(owner.getName() + "." + name + " is not as this program knows it");
        }
    }
}
