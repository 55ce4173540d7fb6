class UnsupportedProgram(Exception):
    pass
def available(): return "not there yet"
def build(p): raise UnsupportedProgram
def load(code, target): pass
def machine_key(): return ""
