package simtest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/holdfast-go/holdfast/redishold"
)

// compiler compiles each script once, for the servers of all seeds.
type compiler struct{ done sync.Map }

func (c *compiler) compile(script *redishold.Script) (*lua.FunctionProto, error) {
	if p, ok := c.done.Load(script.SHA()); ok {
		return p.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(script.Source()), script.Name())
	if err != nil {
		return nil, err
	}
	p, err := lua.Compile(chunk, script.Name())
	if err != nil {
		return nil, err
	}
	p.IsVarArg &^= lua.VarArgNeedsArg // no script has a table arg, which each run would make
	c.done.Store(script.SHA(), p)
	return p, nil
}

// status is a reply such as OK.
type status string

// luaState runs scripts as Redis does, one after the other in the same state.
type luaState struct {
	*compiler
	state   *lua.LState
	command func(args []string) any // a reply: nil, int64, string, status, []any or an error
	ok      *lua.LTable             // the status OK
}

func newLua(c *compiler, command func(args []string) any) *luaState {
	l := &luaState{compiler: c, state: lua.NewState(lua.Options{SkipOpenLibs: true}), command: command}
	l.ok = l.state.NewTable()
	l.ok.RawSetString("ok", lua.LString("OK"))
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath} {
		l.state.Push(l.state.NewFunction(open))
		l.state.Push(lua.LString(name))
		l.state.Call(1, 0)
	}
	texts := l.state.GetGlobal(lua.StringLibName).(*lua.LTable)
	format := texts.RawGetString("format").(*lua.LFunction).GFunction
	texts.RawSetString("format", l.state.NewFunction(func(s *lua.LState) int {
		n, ok := s.Get(2).(lua.LNumber)
		if !ok || s.Get(1) != lua.LString("%.0f") {
			return format(s)
		}
		s.Push(lua.LString(strconv.FormatFloat(float64(n), 'f', 0, 64))) // most are like this, and faster so
		return 1
	}))
	l.state.SetGlobal("redis", l.state.SetFuncs(l.state.NewTable(), map[string]lua.LGFunction{
		"call": l.call, "pcall": l.pcall,
		"acl_check_cmd": func(s *lua.LState) int { s.Push(lua.LTrue); return 1 },
	}))
	return l
}

// run runs a script.
func (l *luaState) run(script *redishold.Script, keys, args []string) redishold.Result {
	p, err := l.compile(script)
	if err != nil {
		return redishold.Result{Err: &redishold.ReplyError{Text: "ERR Error compiling script: " + err.Error()}}
	}
	l.state.SetGlobal("KEYS", l.list(keys))
	l.state.SetGlobal("ARGV", l.list(args))
	l.state.Push(l.state.NewFunctionFromProto(p))
	if err := l.state.PCall(0, 1, nil); err != nil {
		text := "ERR " + err.Error()
		if e, ok := err.(*lua.ApiError); ok && e.Object.Type() == lua.LTTable {
			text = l.state.GetField(e.Object, "err").String()
		}
		return redishold.Result{Err: &redishold.ReplyError{Text: text}}
	}
	v := fromLua(l.state.Get(-1))
	l.state.SetTop(0)
	if err, ok := v.(error); ok {
		return redishold.Result{Err: err}
	}
	return redishold.Result{Value: v}
}

func (l *luaState) list(texts []string) *lua.LTable {
	t := l.state.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

func (l *luaState) call(s *lua.LState) int {
	v := l.pcallOf(s)
	if t, ok := v.(*lua.LTable); ok && t.RawGetString("err") != lua.LNil {
		s.Error(t, 0)
	}
	s.Push(v)
	return 1
}

func (l *luaState) pcall(s *lua.LState) int {
	s.Push(l.pcallOf(s))
	return 1
}

func (l *luaState) pcallOf(s *lua.LState) lua.LValue {
	args := make([]string, s.GetTop())
	for i := range args {
		switch v := s.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = number(float64(v))
		default:
			return l.toLua(&redishold.ReplyError{Text: "ERR Lua redis lib command arguments must be strings or integers"})
		}
	}
	return l.toLua(l.command(args))
}

// number is a number as Redis writes it.
func number(f float64) string {
	if i := int64(f); float64(i) == f {
		return strconv.FormatInt(i, 10)
	}
	return strings.ToLower(fmt.Sprintf("%.17g", f))
}

// toLua is a reply as a script sees it.
func (l *luaState) toLua(v any) lua.LValue {
	switch v := v.(type) {
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case status:
		if v == "OK" {
			return l.ok
		}
		t := l.state.NewTable()
		t.RawSetString("ok", lua.LString(v))
		return t
	case error:
		t := l.state.NewTable()
		t.RawSetString("err", lua.LString(v.Error()))
		return t
	case []any:
		t := l.state.CreateTable(len(v), 0)
		for i, one := range v {
			t.RawSetInt(i+1, l.toLua(one))
		}
		return t
	}
	return lua.LFalse
}

// fromLua is the value of a script as the client sees it.
func fromLua(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return int64(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
	case *lua.LTable:
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			return &redishold.ReplyError{Text: string(text)}
		}
		if text, ok := v.RawGetString("ok").(lua.LString); ok {
			return string(text)
		}
		list := []any{}
		for i := 1; v.RawGetInt(i) != lua.LNil; i++ {
			list = append(list, fromLua(v.RawGetInt(i)))
		}
		return list
	}
	return nil
}
