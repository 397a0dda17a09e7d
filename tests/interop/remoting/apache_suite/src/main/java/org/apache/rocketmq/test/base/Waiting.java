package org.apache.rocketmq.test.base;

import java.util.concurrent.Callable;

/** Waits until a condition is true. */
final class Waiting {
    private Waiting() {
    }

    /** Polls `question`; an exception counts as false. Throws AssertionError after `seconds`. */
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
