mkdir -p ~/ring && cp examples/ring/* ~/ring
cmake -G Ninja -S ~/ring -B ~/ring-build -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_SOURCE="$PWD"
cmake --build ~/ring-build    # the first time with Lockstep itself: 5 to 15 minutes
~/ring-build/bin/lockstep run --standalone --nproc-per-node 3 ~/ring-build/ring --epochs 2
