import frame.Programme;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** `Suite SET NAMESERVER BROKER [NAME...]`: a programme of the remoting client; in set `crash` the node is killed in between. */
public final class Suite {
    private static final Map<String, Map<String, Programme.Scene<Stage>>> SETS = Map.of(
        "clients", clients(), "rooms", Map.of("rooms", Balance::rooms), "crash", crash(),
        "proxied", Map.of("push", Proxied::push, "orderly", Basics::orderly, "send", Basics::send));

    private Suite() {
    }

    private static Map<String, Programme.Scene<Stage>> clients() {
        Map<String, Programme.Scene<Stage>> scenes = new LinkedHashMap<>();
        scenes.put("send", Basics::send);
        scenes.put("once", Basics::once);
        scenes.put("push", Basics::push);
        scenes.put("retry", Basics::retry);
        scenes.put("orderly", Basics::orderly);
        scenes.put("broadcast", Basics::broadcast);
        scenes.put("pop", Basics::pop);
        scenes.put("query", Basics::query);
        scenes.put("sql", Filtered::pull);
        scenes.put("sql-pop", Filtered::pop);
        scenes.put("transaction", Transacted::transaction);
        scenes.put("recall", Transacted::recall);
        scenes.put("callbacks", Inquiries::callbacks);
        scenes.put("reset", Inquiries::reset);
        scenes.put("request", Inquiries::request);
        scenes.put("levels", Timers::levels);
        scenes.put("timers", Timers::timers);
        scenes.put("strategies", Balance::strategies);
        scenes.put("members", Balance::members);
        scenes.put("from-where", Pulling::fromWhere);
        scenes.put("from-where-cold", Pulling::fromWhereCold);
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
        scenes.put("several", Ranked::several);
        scenes.put("trace", Traces::trace);
        scenes.put("skip", Traces::skip);
        scenes.put("undecided", Transacted::undecided);
        return scenes;
    }

    private static Map<String, Programme.Scene<Stage>> crash() {
        Map<String, Programme.Scene<Stage>> scenes = new LinkedHashMap<>();
        scenes.put("stream", Crash::stream);
        scenes.put("stream-pop", Crash::streamPop);
        scenes.put("timers", Crash::timers);
        scenes.put("transactions", Crash::transactions);
        scenes.put("between", Crash::between);
        return scenes;
    }

    public static void main(String[] arguments) throws Exception {
        String set = arguments[0];
        List<String> named = List.of(arguments).subList(3, arguments.length);
        Programme.play(SETS.get(set), named, set.equals("crash"),
            (name, kill) -> new Stage(arguments[1], arguments[2], set + "-" + name, set.equals("proxied"), kill));
    }
}
