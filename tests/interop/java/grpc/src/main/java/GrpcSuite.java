import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/**
 * Many scenarios of the official Java SDK in one process, each in a thread of its own: `GrpcSuite SET ENDPOINT [NAME...]`. Prints
 * `OK NAME SECONDS` or `FAILED NAME` with the reason below it. In set `crash` it prints `READY` when all scenarios have come
 * to where the node is to be killed, and goes on when a line is read, which says that the node is there again.
 */
public final class GrpcSuite {
    interface Scene {
        void play(GrpcStage stage) throws Exception;
    }

    private GrpcSuite() {
    }

    private static Map<String, Scene> scenes(String set) {
        Map<String, Scene> scenes = new LinkedHashMap<>();
        if (set.equals("crash")) {
            scenes.put("stream", GrpcCrash::stream);
            scenes.put("transactions", GrpcCrash::transactions);
            scenes.put("between", GrpcCrash::between);
        } else {
            scenes.put("renewal", GrpcFeatures::renewal);
            scenes.put("sql", GrpcFeatures::sql);
            scenes.put("dead", GrpcFeatures::dead);
            scenes.put("recall", GrpcFeatures::recall);
            scenes.put("waiting", GrpcFeatures::waiting);
            scenes.put("limit", GrpcFeatures::limit);
            scenes.put("priority", GrpcFeatures::priority);
        }
        return scenes;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("drain")) {
            drain(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        }
        Map<String, Scene> scenes = scenes(arguments[0]);
        if (arguments.length > 2) {
            scenes.keySet().retainAll(List.of(arguments).subList(2, arguments.length));
        }
        CountDownLatch ready = new CountDownLatch(scenes.size());
        CountDownLatch back = new CountDownLatch(1);
        List<Thread> threads = new ArrayList<>();
        scenes.forEach((name, scene) -> {
            GrpcStage stage = new GrpcStage(arguments[1], name, ready, back);
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

    /** Print the bodies of a topic, one a line. */
    private static void drain(String endpoint, String topic, int count) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        SimpleConsumer consumer = new GrpcStage(endpoint, "drain", null, null).simple("drain-" + topic, topic, FilterExpression.SUB_ALL);
        for (MessageView each : GrpcStage.drained(consumer, count, 60)) {
            out.println(GrpcStage.text(each));
        }
        System.exit(0);
    }

    private static void play(String name, Scene scene, GrpcStage stage) {
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
