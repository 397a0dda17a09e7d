import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * mqadmin for many commands: `Console` reads a command a line, words separated by tabs, until its input ends. It prints what the
 * command printed, on both streams, and then a line `=== end`. `Guarded` is a command, too.
 */
public final class Console {
    private static final long LONGEST_MS = 90_000;
    /** One command goes on until it is stopped. */
    private static final Set<String> ENDLESS = Set.of("clusterRT");
    private static final long ENDLESS_MS = 3_000;

    private Console() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String said = run(line.split("\t"));
            System.out.print(said.endsWith("\n") || said.isEmpty() ? said : said + "\n");
            System.out.println("=== end");
            System.out.flush();
        }
        System.exit(0);
    }

    /** Some commands keep the client that they had the first time, which is shut down: they are made anew. */
    private static final class Fresh extends MQAdminStartup {
        static void start(String[] words) {
            SUB_COMMANDS.clear();
            main0(words, null);
        }
    }

    /** Runs a command and interrupts it when it takes too long; what it printed. */
    static String run(String[] words) throws InterruptedException {
        PrintStream out = System.out;
        PrintStream error = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream catching = new PrintStream(said, true, StandardCharsets.UTF_8);
        System.setOut(catching);
        System.setErr(catching);
        Thread runner = new Thread(() -> {
            try {
                if (words[0].equals("Guarded")) {
                    Guarded.perform(Arrays.copyOfRange(words, 1, words.length));
                } else {
                    Fresh.start(words[0].isEmpty() ? new String[0] : words);
                }
            } catch (Throwable thrown) {
                thrown.printStackTrace();
            }
        });
        runner.start();
        long limit = System.nanoTime() + (ENDLESS.contains(words[0]) ? ENDLESS_MS : LONGEST_MS) * 1_000_000;
        while (runner.isAlive() && System.nanoTime() < limit) {
            runner.join(50);
            wake();
        }
        // A command that catches the interruption of one step goes on with the next one.
        long last = System.nanoTime() + 10_000_000_000L;
        do {
            runner.interrupt();
            runner.join(50);
        } while (runner.isAlive() && System.nanoTime() < last);
        System.setOut(out);
        System.setErr(error);
        return said.toString(StandardCharsets.UTF_8);
    }

    /** A client that shuts down waits for a thread of its own which looks every 3 s whether it is to end: it looks now. */
    private static void wake() {
        Thread[] found = new Thread[512];
        int count = Thread.currentThread().getThreadGroup().enumerate(found);
        for (int at = 0; at < count; at++) {
            if (found[at].getName().startsWith("NettyEventExecutor") && found[at].getState() == Thread.State.TIMED_WAITING) {
                found[at].interrupt();
            }
        }
    }
}
