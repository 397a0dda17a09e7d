import frame.Programme;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** `Older clients|crash NAMESERVER PREFIX`: a programme of the 4.x client; in set `crash` the node is killed in between. */
public final class Older {
    private Older() {
    }

    private static Map<String, Programme.Scene<Stage>> scenes() {
        Map<String, Programme.Scene<Stage>> scenes = new LinkedHashMap<>();
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
        boolean killed = arguments[0].equals("crash");
        Map<String, Programme.Scene<Stage>> scenes =
            killed ? Map.of("stream", Killed::stream, "transactions", Killed::transactions) : scenes();
        Programme.play(scenes, List.of(), killed, (name, kill) -> new Stage(arguments[1], arguments[2] + "-" + name, kill));
    }
}
