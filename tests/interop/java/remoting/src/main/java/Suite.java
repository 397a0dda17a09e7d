import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/**
 * Many scenarios in one process, each in a thread of its own: `Suite SET NAMESERVER BROKER [NAME...]`. Prints `OK NAME SECONDS` or
 * `FAILED NAME` with the reason below it. In set `crash` it prints `READY` when all scenarios have come to where the node
 * is to be killed, and goes on when a line is read, which says that the node is there again.
 */
public final class Suite {
    interface Scene {
        void play(Stage stage) throws Exception;
    }

    private static final Map<String, Map<String, Scene>> SETS = Map.of(
        "clients", clients(), "rooms", Map.of("rooms", Balance::rooms), "crash", crash(),
        "proxied", Map.of("push", Proxied::push, "orderly", Proxied::orderly));

    private Suite() {
    }

    private static Map<String, Scene> clients() {
        Map<String, Scene> scenes = new LinkedHashMap<>();
        scenes.put("levels", Timers::levels);
        scenes.put("timers", Timers::timers);
        scenes.put("strategies", Balance::strategies);
        scenes.put("members", Balance::members);
        scenes.put("from-where", Pulling::fromWhere);
        scenes.put("lite-assign", Pulling::assign);
        scenes.put("lite-subscribe", Pulling::subscribe);
        scenes.put("pull", Pulling::pull);
        scenes.put("limit", Sending::limit);
        scenes.put("compressed", Sending::compressed);
        scenes.put("characters", Sending::characters);
        scenes.put("selectors", Sending::selectors);
        scenes.put("dead", Retries::dead);
        scenes.put("dead-orderly", Retries::deadOrderly);
        scenes.put("dead-pop", Retries::deadPop);
        scenes.put("pop-orderly", Retries::popOrderly);
        scenes.put("priority", Ranked::priority);
        scenes.put("trace", Traces::trace);
        scenes.put("skip", Traces::skip);
        scenes.put("undecided", Transacted::undecided);
        return scenes;
    }

    private static Map<String, Scene> crash() {
        Map<String, Scene> scenes = new LinkedHashMap<>();
        scenes.put("stream", Crash::stream);
        scenes.put("stream-pop", Crash::streamPop);
        scenes.put("timers", Crash::timers);
        scenes.put("transactions", Crash::transactions);
        scenes.put("between", Crash::between);
        return scenes;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Scene> scenes = new LinkedHashMap<>(SETS.get(arguments[0]));
        if (arguments.length > 3) {
            scenes.keySet().retainAll(List.of(arguments).subList(3, arguments.length));
        }
        CountDownLatch ready = new CountDownLatch(scenes.size());
        CountDownLatch back = new CountDownLatch(1);
        List<Thread> threads = new ArrayList<>();
        scenes.forEach((name, scene) -> {
            Stage stage = new Stage(arguments[1], arguments[2], arguments[0] + "-" + name, ready, back);
            Thread thread = new Thread(() -> play(name, scene, stage), name);
            thread.start();
            threads.add(thread);
        });
        if (arguments[0].equals("crash")) {
            ready.await();
            System.out.println("READY");
            System.out.flush();
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            back.countDown();
        }
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
            stage.readyToBeKilled();
        }
        synchronized (System.out) {
            System.out.print(said);
            System.out.flush();
        }
    }
}
