import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Runs filters in Esper over trades in memory, in one thread: EsperFilters TRADES SYMBOLS STATEMENTS WARM. */
public final class EsperFilters {
    private static final String TRADE = "Trade";
    private static final int BYTES = 28; // of a trade: ts, price, volume, and the number of its symbol
    private static final int TOGETHER = 100; // statements that are compiled at once

    private static long answers;

    public static void main(String[] arguments) throws Exception {
        String[] symbols = Files.readAllLines(Path.of(arguments[1])).toArray(new String[0]);
        Object[][] trades = read(Path.of(arguments[0]), symbols);
        long began = System.nanoTime();
        EPEventService events = deploy(Files.readAllLines(Path.of(arguments[2]))).getEventService();
        double creating = (System.nanoTime() - began) / 1e9;
        int warm = Math.min(trades.length, Integer.parseInt(arguments[3]));
        send(events, trades, warm); // the compiler of the JVM has seen all of it
        answers = 0;
        double used = processorSeconds();
        began = System.nanoTime();
        send(events, trades, trades.length);
        double seconds = (System.nanoTime() - began) / 1e9;
        used = processorSeconds() - used;
        System.out.printf(
                "ESPER {\"seconds\": %.6f, \"processor_s\": %.6f, \"creating_s\": %.6f, \"answers\": %d}%n",
                seconds, used, creating, answers);
    }

    private static Object[][] read(Path path, String[] symbols) throws Exception {
        try (FileChannel file = FileChannel.open(path)) {
            ByteBuffer bytes = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size()).order(ByteOrder.LITTLE_ENDIAN);
            Object[][] trades = new Object[bytes.remaining() / BYTES][];
            for (int place = 0; place < trades.length; place++) {
                trades[place] = new Object[] {bytes.getLong(), bytes.getDouble(), bytes.getLong(), symbols[bytes.getInt()]};
            }
            return trades;
        }
    }

    private static EPRuntime deploy(List<String> statements) throws Exception {
        Configuration configuration = new Configuration();
        String[] names = {"ts", "price", "volume", "symbol"};
        Object[] types = {long.class, double.class, long.class, String.class};
        configuration.getCommon().addEventType(TRADE, names, types);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        configuration.getRuntime().getThreading().setListenerDispatchPreserveOrder(false);
        EPRuntime runtime = EPRuntimeProvider.getDefaultRuntime(configuration);
        for (int from = 0; from < statements.size(); from += TOGETHER) {
            List<String> some = statements.subList(from, Math.min(statements.size(), from + TOGETHER));
            CompilerArguments known = new CompilerArguments(configuration);
            EPCompiled compiled = EPCompilerProvider.getCompiler().compile(String.join(";\n", some), known);
            EPDeployment deployment = runtime.getDeploymentService().deploy(compiled);
            for (EPStatement statement : deployment.getStatements()) {
                statement.addListener((taken, gone, which, where) -> answers += taken.length);
            }
        }
        return runtime;
    }

    private static void send(EPEventService events, Object[][] trades, int many) {
        for (int place = 0; place < many; place++) {
            events.sendEventObjectArray(trades[place], TRADE);
        }
    }

    private static double processorSeconds() {
        var machine = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return machine.getProcessCpuTime() / 1e9;
    }
}
