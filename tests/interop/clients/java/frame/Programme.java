package frame;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;

/**
 * Many scenes in one process, each in a thread of its own, since most of it is waiting. Prints `OK NAME SECONDS`, or `FAILED NAME`
 * with the reason below it. Where the node is to be killed it prints `READY` when all scenes have come to that point, and goes on
 * when a line is read, which says that the node is there again.
 */
public final class Programme {
    /** One scene, with what it has. */
    public interface Scene<P extends Performance> {
        void play(P stage) throws Exception;
    }

    private Programme() {
    }

    /** Play all scenes, or those that are named, and end the process. `stage` makes what a scene has, by its name. */
    public static <P extends Performance> void play(Map<String, Scene<P>> all, List<String> named, boolean killed,
            BiFunction<String, Performance.Kill, P> stage) throws Exception {
        perform(all, named, killed, stage);
        System.exit(0);
    }

    /** The same; the process goes on. */
    public static <P extends Performance> void perform(Map<String, Scene<P>> all, List<String> named, boolean killed,
            BiFunction<String, Performance.Kill, P> stage) throws Exception {
        List<String> names = new ArrayList<>(all.keySet());
        if (!named.isEmpty()) {
            names.retainAll(named);
        }
        Performance.Kill kill = new Performance.Kill(names.size());
        List<Thread> threads = new ArrayList<>();
        for (String name : names) {
            P made = stage.apply(name, kill);
            Thread thread = new Thread(() -> perform(name, all.get(name), made), name);
            thread.start();
            threads.add(thread);
        }
        if (killed) {
            kill.ready.await();
            System.out.println("READY");
            System.out.flush();
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            kill.back.countDown();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.flush();
    }

    private static <P extends Performance> void perform(String name, Scene<P> scene, P stage) {
        long begun = System.nanoTime();
        StringWriter said = new StringWriter();
        try {
            scene.play(stage);
            said.write("OK " + name + " " + (System.nanoTime() - begun) / 1_000_000_000L + " s\n");
        } catch (Throwable error) {
            said.write("FAILED " + name + "\n");
            error.printStackTrace(new PrintWriter(said, true));
            stage.readyToBeKilled();
        }
        synchronized (System.out) {
            System.out.print(said);
            System.out.flush();
        }
        try {
            stage.close();
        } catch (Exception error) {
            System.err.println(name + " did not end well: " + error);
        }
    }
}
