package webdemo

import "testing"

func TestRedacted(t *testing.T) {
	for address, want := range map[string]string{
		"redis://h:1/0":         "redis://h:1/0",
		"redis://u:s3@h?addr=i": "redis://u:xxxxx@h?addr=i",
		"redis+sentinel://h/m?sentinel_password=s3&db=1":  "redis+sentinel://h/m?db=1&sentinel_password=xxxxx",
		"redis+sentinel://h/m?Sentinel_Password=s3":       "redis+sentinel://h/m?Sentinel_Password=xxxxx",
		"redis+sentinel://h/m?sentinel%5Fpassword=s3":     "redis+sentinel://h/m?sentinel_password=xxxxx",
		"redis+sentinel://h/m?sentinel_password=s3;&db=1": "redis+sentinel://h/m",
		"redis://u:s%zz@h": "a Redis (16 characters of URL)",
	} {
		if got := redacted(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
