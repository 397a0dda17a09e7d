module headgate/interop/frame

go 1.21
