from bedplate.inspect.leaks import expect_no_leak as expect_no_leak
from bedplate.inspect.leaks import leaks as leaks
from bedplate.inspect.memory_report import peak as peak
from bedplate.inspect.memory_report import report as report
