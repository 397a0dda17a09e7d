import frame.Programme;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/**
 * `GrpcSuite SET ENDPOINT [NAME...]`: a programme of the official Java SDK; in set `crash` the node is killed in between.
 * `GrpcSuite drain ENDPOINT TOPIC COUNT` prints the bodies of a topic.
 */
public final class GrpcSuite {
    private GrpcSuite() {
    }

    private static Map<String, Programme.Scene<GrpcStage>> scenes(String set) {
        Map<String, Programme.Scene<GrpcStage>> scenes = new LinkedHashMap<>();
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
        List<String> named = List.of(arguments).subList(2, arguments.length);
        Programme.play(scenes(arguments[0]), named, arguments[0].equals("crash"),
            (name, kill) -> new GrpcStage(arguments[1], name, kill));
    }

    /** Print the bodies of a topic, one a line. */
    private static void drain(String endpoint, String topic, int count) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        SimpleConsumer consumer = new GrpcStage(endpoint, "drain", null).simple("drain-" + topic, topic, FilterExpression.SUB_ALL);
        for (MessageView each : GrpcStage.drained(consumer, count, 60)) {
            out.println(GrpcStage.text(each));
        }
        System.exit(0);
    }
}
