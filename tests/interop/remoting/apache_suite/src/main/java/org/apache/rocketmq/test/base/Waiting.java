package org.apache.rocketmq.test.base;

import java.util.concurrent.Callable;

/** Asking until the answer is yes. */
final class Waiting {
    private Waiting() {
    }

    /** An answer that fails counts as no, until the time is up. */
    static void until(int seconds, Callable<Boolean> question) {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        Exception last = null;
        while (System.nanoTime() < end) {
            try {
                if (question.call()) {
                    return;
                }
                last = null;
                Thread.sleep(50);
            } catch (Exception error) {
                last = error;
            }
        }
        throw new AssertionError("not within " + seconds + " s", last);
    }
}
