import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

/** Prints a segment by Kafka's own record classes, as DumpLogSegments does: a line for each batch and each record. */
class DumpLog {
    public static void main(String[] arguments) throws Exception {
        try (FileRecords log = FileRecords.open(new File(arguments[0]), false)) {
            for (RecordBatch batch : log.batches()) {
                batch.ensureValid();
                System.out.printf("batch %d %d %d %s%n", batch.baseOffset(), batch.lastOffset(),
                    batch.countOrNull(), batch.compressionType());
                for (Record record : batch) {
                    record.ensureValid();
                    System.out.printf("record %d %d %s %s%n", record.offset(), record.timestamp(),
                        text(record.key()), text(record.value()));
                }
            }
            if (log.sizeInBytes() != new File(arguments[0]).length()) {
                throw new IllegalStateException("the last batch is cut off");
            }
        }
    }

    private static String text(ByteBuffer bytes) {
        return bytes == null ? "null" : StandardCharsets.UTF_8.decode(bytes).toString();
    }
}
