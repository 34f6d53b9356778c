import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.EventHeaderV4;
import com.github.shyiko.mysql.binlog.event.EventType;
import com.github.shyiko.mysql.binlog.event.TransactionPayloadEventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer.CompatibilityMode;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Prints every event and every row value of binlog files as mysql-binlog-connector-java reads them. */
public final class Dump {
    private static final PrintStream OUT = new PrintStream(new BufferedOutputStream(System.out));

    /** Types that the library does not know are 0. */
    private static int code(EventType type) {
        for (int number = 1; number < 256; number++) {
            if (type != EventType.UNKNOWN && EventType.byEventNumber(number) == type) {
                return number;
            }
        }
        return 0;
    }

    private static String text(Serializable value) {
        if (value == null) {
            return "null";
        }
        String out;
        if (value instanceof byte[]) {
            out = "s:" + HexFormat.of().formatHex((byte[]) value);
        } else if (value instanceof Float) {
            out = String.format("f:%08x", Float.floatToRawIntBits((Float) value));
        } else if (value instanceof Double) {
            out = String.format("d:%016x", Double.doubleToRawLongBits((Double) value));
        } else if (value instanceof BitSet) {
            long[] words = ((BitSet) value).toLongArray();
            out = "i:" + Long.toUnsignedString(words.length == 0 ? 0 : words[0]);
        } else if (value instanceof Integer || value instanceof Long) {
            out = "i:" + value;
        } else {
            out = "t:" + value;
        }
        return '"' + out + '"';
    }

    private static String image(Serializable[] values) {
        List<String> texts = new ArrayList<>();
        for (Serializable value : values) {
            texts.add(text(value));
        }
        return "[" + String.join(",", texts) + "]";
    }

    private static String rows(List<Serializable[]> rows) {
        return rows.stream().map(row -> "[" + image(row) + "]").collect(Collectors.joining(",", "[", "]"));
    }

    private static String pairs(List<Map.Entry<Serializable[], Serializable[]>> rows) {
        return rows.stream()
            .map(row -> "[" + image(row.getKey()) + "," + image(row.getValue()) + "]")
            .collect(Collectors.joining(",", "[", "]"));
    }

    private static void print(int type, EventData data, boolean inside) {
        String rows = null;
        if (data instanceof WriteRowsEventData) {
            rows = rows(((WriteRowsEventData) data).getRows());
        } else if (data instanceof DeleteRowsEventData) {
            rows = rows(((DeleteRowsEventData) data).getRows());
        } else if (data instanceof UpdateRowsEventData) {
            rows = pairs(((UpdateRowsEventData) data).getRows());
        }
        OUT.print("{\"event\":" + type + ",\"inside\":" + inside);
        OUT.println(rows == null ? "}" : ",\"rows\":" + rows + "}");
        if (data instanceof TransactionPayloadEventData) {
            for (Event event : ((TransactionPayloadEventData) data).getUncompressedEvents()) {
                // The library gives their values in other forms, and does not let one choose.
                print(code(((EventHeaderV4) event.getHeader()).getEventType()), null, true);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int index = 0; index < arguments.length; index++) {
            OUT.println("{\"file\":\"" + arguments[index] + "\"}");
            EventDeserializer deserializer = new EventDeserializer();
            deserializer.setCompatibilityMode(
                CompatibilityMode.DATE_AND_TIME_AS_LONG_MICRO,
                CompatibilityMode.CHAR_AND_BINARY_AS_BYTE_ARRAY,
                CompatibilityMode.INVALID_DATE_AND_TIME_AS_MIN_VALUE);
            try (BinaryLogFileReader reader = new BinaryLogFileReader(new File(arguments[index]), deserializer)) {
                for (Event event = reader.readEvent(); event != null; event = reader.readEvent()) {
                    EventHeaderV4 header = event.getHeader();
                    print(code(header.getEventType()), event.getData(), false);
                }
            }
        }
        OUT.flush();
    }
}
