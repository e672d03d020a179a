package redisurl

import "testing"

func TestRedacted(t *testing.T) {
	for address, want := range map[string]string{
		"redis://h:1/0":                                      "redis://h:1/0",
		"redis://app:s3cret@h:1/0":                           "redis://app@h:1/0",
		"redis://:s3cret@h":                                  "redis://h",
		"redis://u:s3@h?addr=i":                              "redis://u@h?addr=i",
		"redis+sentinel://h,i/m?db=1&sentinel_password=s3":   "redis+sentinel://h,i/m?db=1&sentinel_password=%2A%2A%2A",
		"redis+sentinel://h/m?Sentinel_Password=s3":          "redis+sentinel://h/m?Sentinel_Password=%2A%2A%2A",
		"redis+sentinel://h/m?sentinel%5Fpassword=s3":        "redis+sentinel://h/m?sentinel_password=%2A%2A%2A",
		"redis+sentinel://h/m?sentinel_password=s3;&db=1":    "redis+sentinel://h/m",
		"redis://app:s3?cret@h":                              "redis://…",
		"redis://app:12,s3cret%40h":                          "redis://…",
		"redis://app:s%zz@h":                                 "redis://…",
		"redis://app:12?34x@h":                               "redis://…",
		"redis://:?s3cret@h":                                 "redis://…",
		"redis://app:12/34?56@h":                             "redis://…",
		"redis://app:12#3?4@h":                               "redis://…",
		"app:s3cret@redis://h%zz":                            "", // the scheme would show it
		"redis://app:12/s3cret@h":                            "redis://…",
		"redis+sentinel://h/m?x=1?password=s3":               "redis+sentinel://…",
		"unix:///:s3cret@/run/redis.sock":                    "unix://…",
		"unix://u:x@/s3cret@h/redis.sock":                    "unix://…",
		"redis://h1:1,h2:2,[::1]:3":                          "redis://h1:1,h2:2,[::1]:3",
		"app:s3cret@redis://h":                               "",
		"unix:///run/redis.sock?db=1":                        "unix:///run/redis.sock?db=1",
		"s3cret":                                             "",
		"redis://u:p@h1:1,h2:2/?master=a&sentinel_password=": "redis://u@h1:1,h2:2/?master=a&sentinel_password=%2A%2A%2A",
	} {
		if got := Redacted(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
