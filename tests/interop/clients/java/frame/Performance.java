package frame;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** What every scene has, whatever its SDK: clients that end with it, a node that may be killed under it, and what it checks. */
public abstract class Performance implements AutoCloseable {
    /** Of all scenes of a programme: who is not yet ready for the node to be killed, and whether it is there again. */
    public static final class Kill {
        final CountDownLatch ready;
        final CountDownLatch back = new CountDownLatch(1);

        public Kill(int scenes) {
            ready = new CountDownLatch(scenes);
        }
    }

    private final Kill kill;
    private final Deque<AutoCloseable> ends = new ArrayDeque<>();
    private boolean paused;

    protected Performance(Kill kill) {
        this.kill = kill;
    }

    /** To be done when the scene is over, the latest first. */
    public void atEnd(AutoCloseable end) {
        ends.push(end);
    }

    @Override
    public void close() throws Exception {
        while (!ends.isEmpty()) {
            ends.pop().close();
        }
    }

    /** Says that this scene is ready for the node to be killed, once; later calls do nothing. */
    public void readyToBeKilled() {
        if (!paused) {
            paused = true;
            kill.ready.countDown();
        }
    }

    /** Ready, and waits until the node has been killed and is there again. */
    public void killed() throws InterruptedException {
        readyToBeKilled();
        awaitBack();
    }

    public void awaitBack() throws InterruptedException {
        kill.back.await();
    }

    public boolean isBack() {
        return kill.back.getCount() == 0;
    }

    public static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    public static void until(String what, int seconds, BooleanSupplier holds) throws InterruptedException {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!holds.getAsBoolean()) {
            check(System.nanoTime() < limit, "not within " + seconds + " s: " + what);
            Thread.sleep(20);
        }
    }

    /** Exactly these, each once, whatever the order. */
    public static void same(Collection<String> seen, Collection<String> wanted) {
        List<String> twice = new ArrayList<>(seen);
        new HashSet<>(seen).forEach(twice::remove);
        TreeSet<String> missing = new TreeSet<>(wanted);
        missing.removeAll(seen);
        TreeSet<String> foreign = new TreeSet<>(seen);
        foreign.removeAll(wanted);
        check(twice.isEmpty() && missing.isEmpty() && foreign.isEmpty(),
            "missing " + missing + ", more than once " + twice + ", never sent " + foreign);
    }
}
