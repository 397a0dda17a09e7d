import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Scenarios of the 4.x client in one process, each in a thread of its own: `Older NAMESERVER PREFIX`. Prints `OK NAME SECONDS`, or
 * `FAILED NAME` with the reason below it.
 */
public final class Older {
    interface Scene {
        void play(Stage stage) throws Exception;
    }

    private Older() {
    }

    private static Map<String, Scene> scenes() {
        Map<String, Scene> scenes = new LinkedHashMap<>();
        scenes.put("send", Reading::send);
        scenes.put("pull", Reading::pull);
        scenes.put("subscribe", Reading::subscribe);
        scenes.put("retry", Pushing::retry);
        scenes.put("orderly", Pushing::orderly);
        scenes.put("broadcast", Pushing::broadcast);
        scenes.put("levels", Pushing::levels);
        scenes.put("sql", Pushing::sql);
        scenes.put("transaction", Asking::transaction);
        scenes.put("request", Asking::request);
        scenes.put("trace", Asking::trace);
        scenes.put("dead", Failing::dead);
        scenes.put("dead-orderly", Failing::deadOrderly);
        scenes.put("limit", Failing::limit);
        scenes.put("query", Finding::query);
        scenes.put("reset", Finding::reset);
        scenes.put("spaces", Finding::spaces);
        scenes.put("from-where", Watched::fromWhere);
        scenes.put("running", Watched::running);
        return scenes;
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        scenes().forEach((name, scene) -> {
            Thread thread = new Thread(() -> play(name, scene, new Stage(arguments[0], arguments[1] + "-" + name)), name);
            thread.start();
            threads.add(thread);
        });
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.flush();
        System.exit(0);
    }

    private static void play(String name, Scene scene, Stage stage) {
        long begun = System.nanoTime();
        StringWriter said = new StringWriter();
        try (stage) {
            scene.play(stage);
            said.write("OK " + name + " " + (System.nanoTime() - begun) / 1_000_000_000L + " s\n");
        } catch (Throwable error) {
            said.write("FAILED " + name + "\n");
            error.printStackTrace(new PrintWriter(said, true));
        }
        synchronized (System.out) {
            System.out.print(said);
            System.out.flush();
        }
    }
}
