package redistest

import (
	"fmt"
	"os"
	"path/filepath"
)

// FailSaves makes the server behave as one whose disk is full: it cannot write its snapshot, and
// refuses writes and PING with MISCONF until RepairSaves or Heal. A folder lies where the file
// belongs. FailSaves returns when the server has tried to save.
func (s *Server) FailSaves() {
	s.helper()
	if err := s.failSaves(); err != nil {
		s.fail(err)
	}
}

func (s *Server) failSaves() error {
	if err := os.RemoveAll(s.snapshot()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.snapshot(), "in the way"), 0o700); err != nil {
		return err
	}
	// Without a condition to save, a failed snapshot would not matter. This one is never met.
	if err := s.configure("save", "3600 1000000000"); err != nil {
		return err
	}
	return s.save("err")
}

// RepairSaves undoes FailSaves. It does nothing where there is nothing to undo.
func (s *Server) RepairSaves() {
	s.helper()
	if err := s.repairSaves(); err != nil {
		s.fail(err)
	}
}

func (s *Server) repairSaves() error {
	if info, err := os.Stat(s.snapshot()); err != nil || !info.IsDir() {
		return nil
	}
	if err := os.RemoveAll(s.snapshot()); err != nil {
		return err
	}
	if err := s.save("ok"); err != nil {
		return err
	}
	if err := s.configure("save", ""); err != nil {
		return err
	}
	return os.Remove(s.snapshot()) // it would come back with the server
}

// save makes the server write its snapshot, and waits until that has ended with `status`.
func (s *Server) save(status string) error {
	if err := s.command("BGSAVE"); err != nil {
		return err
	}
	return poll(startLimit, func() error {
		info, _ := s.Do("INFO", "persistence").(string)
		if infoField(info, "rdb_bgsave_in_progress") != "0" || infoField(info, "rdb_last_bgsave_status") != status {
			return fmt.Errorf("%s: the snapshot has not ended with the status %q: %s", s.addr, status, info)
		}
		return nil
	})
}

func (s *Server) snapshot() string { return filepath.Join(s.dir, "dump.rdb") }
