package askd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"askd.example/go"
)

// TestTheQuickStartRunsAsPrinted takes README.md at its word, but for the server's address.
func TestTheQuickStartRunsAsPrinted(t *testing.T) {
	ctx, s, root := within(t, 5*time.Minute), shared(t), t.TempDir()
	link(t, "..", filepath.Join(root, "clients"))
	link(t, filepath.Dir(program()), filepath.Join(root, ".venv", "bin"))
	text, err := os.ReadFile("README.md")
	check(t, err)
	readme := strings.ReplaceAll(string(text), "127.0.0.1:50051", s.address)
	begin, source, run := block(t, readme, "sh", 0), block(t, readme, "go", 0), block(t, readme, "sh", 1)
	steps := begin + "cat > main.go <<'END'\n" + source + "END\n" + run
	go answerEvery(ctx, s.client(t, askd.WithWorkspace("default")), askd.Select("yes"))
	command := exec.CommandContext(ctx, "sh", "-ec", steps)
	command.Dir = root
	command.Env = append(withoutSettings(os.Environ()), "ASKD_ADDRESS="+s.address, "ASKD_DATA_DIR="+s.folder)
	output, err := command.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^true says key:\w+\n\z`).Match(output) {
		t.Fatalf("%v:\n%s", err, output)
	}
}

func link(t *testing.T, target, name string) {
	target, err := filepath.Abs(target)
	check(t, err)
	check(t, os.MkdirAll(filepath.Dir(name), 0o700))
	check(t, os.Symlink(target, name))
}

// block is one of the code blocks in a language.
func block(t *testing.T, text, language string, index int) string {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1)
	if len(blocks) <= index {
		t.Fatalf("no block %d in %s", index, language)
	}
	return blocks[index][1]
}
