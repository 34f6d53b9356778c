-- Prints how often each number of 1 to --high came in a million draws: a line per number.
sysbench.cmdline.options = {
   draw = {"Function of sysbench.rand", "uniform"},
   high = {"Largest number", 1000},
}

function event()
   local draw, counts = sysbench.rand[sysbench.opt.draw], {}
   for i = 1, 1000000 do
      local n = draw(1, sysbench.opt.high)
      counts[n] = (counts[n] or 0) + 1
   end
   for n = 1, sysbench.opt.high do
      print(counts[n] or 0)
   end
end
