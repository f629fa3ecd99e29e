package penstock;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Sets the permissions of local files within the JVM (spark/session/local_files.py).
 *
 * <p>Without Hadoop's native library, which pyspark does not bring, Hadoop starts the program chmod for every file.
 */
public class LocalFiles extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
        if (permission.getStickyBit()) { // which Java has no word for
            super.setPermission(path, permission);
        } else {
            String letters = permission.toString();
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(letters));
        }
    }
}
