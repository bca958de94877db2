package bench;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;

/** Reads a field of a JSON object, and no further than that field. */
final class Fields {
    private static final JsonFactory JSON = new JsonFactory();

    private Fields() {
    }

    /** Null where there is none, or the value is no object, as those of heartbeats. */
    static String read(byte[] value, String field) {
        if (value == null || value.length == 0 || value[0] != '{') {
            return null;
        }
        try (JsonParser parser = JSON.createParser(value)) {
            parser.nextToken();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                boolean isIt = parser.currentName().equals(field);
                parser.nextToken();
                if (isIt) {
                    return parser.getText();
                }
                parser.skipChildren();
            }
            return null;
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }
}
