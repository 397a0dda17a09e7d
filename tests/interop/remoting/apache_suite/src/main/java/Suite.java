import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs classes of org.apache.rocketmq.test by JUnit, and prints a line for each test: `passed`, `failed` or `ignored`, the
 * class and the test, its milliseconds. Arguments are classes (`offset.OffsetResetIT`), and tests to leave out
 * (`-offset.OffsetResetIT#testPullOffsetTotal`).
 */
public final class Suite extends RunListener {
    private static final String PACKAGE = "org.apache.rocketmq.test.";
    private long began;
    private Failure failure;

    public static void main(String[] arguments) throws Exception {
        List<String> classes = new ArrayList<>();
        for (String each : arguments) {
            if (!each.startsWith("-")) {
                classes.add(each);
            }
        }
        Set<String> absent = List.of(arguments).stream().filter(each -> each.startsWith("-")).collect(Collectors.toSet());
        JUnitCore core = new JUnitCore();
        core.addListener(new Suite());
        for (String each : classes) {
            core.run(Request.aClass(Class.forName(PACKAGE + each)).filterWith(without(absent)));
        }
        System.out.println("done");
        System.exit(0);
    }

    private static Filter without(Set<String> absent) {
        return new Filter() {
            @Override
            public boolean shouldRun(Description test) {
                return !absent.contains("-" + name(test));
            }

            @Override
            public String describe() {
                return "all but " + absent;
            }
        };
    }

    private static String name(Description test) {
        return test.getClassName().replace(PACKAGE, "") + "#" + test.getMethodName();
    }

    @Override
    public void testStarted(Description test) {
        began = System.currentTimeMillis();
        failure = null;
    }

    @Override
    public void testFailure(Failure failed) {
        failure = failed;
        if (!failed.getDescription().isTest()) {
            say("failed", failed.getDescription());
        }
    }

    @Override
    public void testIgnored(Description test) {
        say("ignored", test);
    }

    @Override
    public void testFinished(Description test) {
        say(failure == null ? "passed" : "failed", test);
    }

    private void say(String what, Description test) {
        System.out.println(what + " " + name(test) + " " + (System.currentTimeMillis() - began));
        if (failure != null && what.equals("failed")) {
            failure.getTrimmedTrace().lines().limit(30).forEach(line -> System.out.println("  " + line));
        }
    }
}
